"""One lane's operands: element of the loaded bytes, register, accumulator or scalar."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..one_hot import only_if
from .element import Elements
from .extend import sign_extend
from .lane_control import LaneControl
from .registers import RegisterFile


class Operands(wiring.Component):
    """Stages 1 and 2 of a lane, and its registers.

    - `bytes8`, `bytes16`, `bytes32`, `bytes64`: the lane's element of the loaded word at each size (0 where there is
      none); of 8 bytes the low vector_bits.
    - `splat`: element 0, extended.
    - `accumulator`: the array's output for this lane.
    - `a`, `b`: the operands, in stage 3.
    - `result`: what stage 9 writes to the register.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "bytes8": In(8),
                "bytes16": In(16),
                "bytes32": In(32),
                "bytes64": In(config.vector_bits),
                "splat": In(config.vector_bits),
                "accumulator": In(signed(32)),
                "result": In(signed(config.vector_bits)),
                "a": Out(signed(config.vector_bits)),
                "b": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control
        m.submodules.registers = registers = RegisterFile(self.config)
        m.d.comb += [
            registers.a_enable.eq(control.s1_a_enable),
            registers.a_address.eq(control.s1_a_address),
            registers.b_enable.eq(control.s1_b_enable),
            registers.b_address.eq(control.s1_b_address),
            registers.write.eq(control.s9_write),
            registers.address.eq(control.s9_address),
            registers.value.eq(self.result),
        ]

        # Lanes that have no element of its size may get anything.
        bits = self.config.vector_bits
        m.submodules.elements = elements = Elements(self.config)
        m.d.comb += [
            elements.bytes8.eq(self.bytes8),
            elements.bytes16.eq(self.bytes16),
            elements.bytes32.eq(self.bytes32),
            elements.bytes64.eq(self.bytes64),
            elements.wide2.eq(control.s2_wide2),
            elements.wide4.eq(control.s2_wide4),
            elements.wide8.eq(control.s2_wide8),
            elements.signed.eq(control.s2_signed),
        ]
        loaded = Signal(bits)
        m.d.comb += loaded.eq(Mux(control.s2_splat, self.splat, elements.element))

        # One of the sources at most; the others count as zero.
        a, b = (Signal(signed(bits), name=name, reset_less=True) for name in ("a_s3", "b_s3"))
        m.d.sync += [
            a.eq(
                only_if(control.s2_a_register, registers.a)
                | only_if(control.s2_a_load, loaded)
                | only_if(control.s2_a_array, sign_extend(self.accumulator, bits))
                | sign_extend(control.s2_a_scalar, bits).as_unsigned()
            ),
            b.eq(
                only_if(control.s2_b_register, registers.b)
                | only_if(control.s2_b_load, loaded)
                | sign_extend(control.s2_b_scalar, bits).as_unsigned()
            ),
        ]
        m.d.comb += [self.a.eq(a), self.b.eq(b)]
        return m


__all__ = ["Operands"]
