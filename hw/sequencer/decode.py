"""Tells instructions from anything else, by the tables of `isa`."""

import functools
import operator

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import CHECK_XOR, INSTRUCTION_BYTES, Opcode, used_bits


class Decoder(wiring.Component):
    """Combinational: is this an instruction as `isa.decode` accepts it, for cores that there are? It is one if neither
    port says otherwise; they are two because each takes a good part of a cycle.

    Ports:
        `instruction`: the 16 bytes.
        `damaged`: the check byte does not fit.
        `unknown`: the opcode does not exist, or a bit beyond its last field is not zero.
    """

    instruction: In(8 * INSTRUCTION_BYTES)
    damaged: Out(1)
    unknown: Out(1)

    def __init__(self, core_mask_bits: int = 0):
        self.core_mask_bits = core_mask_bits
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        check = Signal(8)
        m.d.comb += check.eq(
            functools.reduce(
                operator.xor, (self.instruction.word_select(i, 8) for i in range(INSTRUCTION_BYTES))
            )
        )

        # Opcodes by where their fields end; one chain of ORs tells for each end whether a bit beyond is set.
        ends: dict[int, list[Opcode]] = {}
        for opcode in Opcode:
            ends.setdefault(used_bits(opcode, self.core_mask_bits), []).append(opcode)
        clean = Signal()
        beyond, upper = None, 8 * INSTRUCTION_BYTES
        with m.Switch(self.instruction[:8]):
            for end, opcodes in sorted(ends.items(), reverse=True):
                part = self.instruction[end:upper].any()
                bit = Signal(name=f"beyond{end}")
                m.d.comb += bit.eq(part if beyond is None else part | beyond)
                beyond, upper = bit, end
                with m.Case(*opcodes):
                    m.d.comb += clean.eq(~bit)
        m.d.comb += [self.damaged.eq(check != CHECK_XOR), self.unknown.eq(~clean)]
        return m
