"""One lane's operands: element of the loaded bytes, register, accumulator or scalar."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Element
from .extend import sign_extend
from .lane_control import LaneControl
from .program import Select
from .registers import RegisterFile


class Operands(wiring.Component):
    """Stages 1 and 2 of a lane, and its registers.

    - `bytes8`, `bytes16`, `bytes32`, `bytes64`: the lane's element of the loaded word at each size (0 where there is
      none); of 8 bytes the low vector_bits.
    - `splat`: element 0, already extended.
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
                "splat": In(signed(config.vector_bits)),
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

        bits = self.config.vector_bits
        element = Signal(signed(bits))
        with m.Switch(control.s2_element):
            with m.Case(Element.INT8):
                m.d.comb += element.eq(sign_extend(self.bytes8, bits))
            with m.Case(Element.UINT8):
                m.d.comb += element.eq(self.bytes8)
            with m.Case(Element.INT16):
                m.d.comb += element.eq(sign_extend(self.bytes16, bits))
            with m.Case(Element.UINT16):
                m.d.comb += element.eq(self.bytes16)
            with m.Case(Element.INT32):
                m.d.comb += element.eq(sign_extend(self.bytes32, bits))
            with m.Default():
                m.d.comb += element.eq(self.bytes64)
        loaded = Mux(control.s2_splat, self.splat, element)

        a, b = (
            Signal(signed(self.config.vector_bits), name=name, reset_less=True) for name in ("a_s3", "b_s3")
        )
        with m.If(control.s2_enable):
            with m.Switch(control.s2_a_select):
                with m.Case(Select.REGISTER):
                    m.d.sync += a.eq(registers.a)
                with m.Case(Select.LOAD):
                    m.d.sync += a.eq(loaded)
                with m.Case(Select.ARRAY):
                    m.d.sync += a.eq(sign_extend(self.accumulator, bits))
                with m.Default():
                    m.d.sync += a.eq(sign_extend(control.s2_a_scalar, bits))
            with m.Switch(control.s2_b_select):
                with m.Case(Select.REGISTER):
                    m.d.sync += b.eq(registers.b)
                with m.Case(Select.LOAD):
                    m.d.sync += b.eq(loaded)
                with m.Default():
                    m.d.sync += b.eq(sign_extend(control.s2_b_scalar, bits))
        m.d.comb += [self.a.eq(a), self.b.eq(b)]
        return m


__all__ = ["Operands"]
