"""Tells instructions from anything else, by the tables of `isa`."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..check_byte import check_byte
from ..isa import INSTRUCTION_BYTES, Opcode, used_bits


class Decoder(wiring.Component):
    """Combinational: is this an instruction as `isa.decode` accepts it, in this machine? It is one if neither
    port says otherwise; they are two because each takes a good part of a cycle.

    Ports:
        `instruction`: the 16 bytes.
        `damaged`: the check byte does not fit.
        `unknown`: the opcode does not exist, or a bit beyond its last field is not zero.
    """

    instruction: In(8 * INSTRUCTION_BYTES)
    damaged: Out(1)
    unknown: Out(1)

    def __init__(self, core_mask_bits: int = 0, load_crc: int = 0):
        self.core_mask_bits, self.load_crc = core_mask_bits, load_crc
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Opcodes by where their fields end; one chain of ORs tells for each end whether a bit beyond is set.
        ends: dict[int, list[Opcode]] = {}
        for opcode in Opcode:
            if end := used_bits(opcode, self.core_mask_bits, self.load_crc):
                ends.setdefault(end, []).append(opcode)
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
        m.d.comb += [
            self.damaged.eq(self._expected_check() != self.instruction[8:16]),
            self.unknown.eq(~clean),
        ]
        return m

    def _expected_check(self) -> Value:
        """`isa.check_byte`, which is linear but for a constant: each bit of it is a sum of bits of the instruction."""
        of_zeros = check_byte(bytes(INSTRUCTION_BYTES))
        of_bits = [
            check_byte((1 << bit).to_bytes(INSTRUCTION_BYTES, "little")) ^ of_zeros
            for bit in range(8 * INSTRUCTION_BYTES)
        ]
        return of_zeros ^ Cat(
            Cat(self.instruction[bit] for bit, terms in enumerate(of_bits) if terms >> place & 1).xor()
            for place in range(8)
        )
