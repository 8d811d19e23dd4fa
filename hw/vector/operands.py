"""One lane's operands: loaded element, register, accumulator or scalar."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..one_hot import only_if
from .extend import sign_extend
from .lane_control import LaneControl
from .registers import RegisterFile


class Operands(wiring.Component):
    """Stages 1 and 2 of a lane, and its registers.

    Ports:
        control (LaneControl, in): what to do.
        selected (1, in): stage 10: the lane belongs to the beat, and may write a register.
        element (vector_bits, in): stage 2: the lane's element of the loaded word, extended.
        accumulator (32, in): stage 2: the array's output for this lane.
        result (vector_bits, in): stage 10: what is written to the register.
        a, b (vector_bits, out): stage 3: the operands.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "selected": In(1),
                "element": In(config.vector_bits),
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
            registers.write.eq(control.s10_write & self.selected),
            registers.address.eq(control.s10_address),
            registers.value.eq(self.result),
        ]

        # A lane of another beat gets any value: its result goes nowhere.
        bits, flags = self.config.vector_bits, control.s2

        # At most one source is chosen; the others count as zero.
        a, b = (
            Signal(signed(bits), name="s3_a", reset_less=True),
            Signal(signed(bits), name="s3_b", reset_less=True),
        )
        m.d.sync += [
            a.eq(
                only_if(flags.a_register, registers.a)
                | only_if(flags.a_load, self.element)
                | only_if(flags.a_array, sign_extend(self.accumulator, bits))
                | sign_extend(control.s2_a_scalar, bits).as_unsigned()
            ),
            b.eq(
                only_if(flags.b_register, registers.b)
                | only_if(flags.b_load, self.element)
                | sign_extend(control.s2_b_scalar, bits).as_unsigned()
            ),
        ]
        m.d.comb += [self.a.eq(a), self.b.eq(b)]
        return m
