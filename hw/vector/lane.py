"""One lane: parameters, registers, table, arithmetic."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .alu import Alu
from .lane_control import LaneControl
from .operands import Operands
from .params import Parameters
from .table import Table, table_words


def drive_control(m: Module, control: object, signature: wiring.Signature, source: object) -> None:
    """Drives every signal of `control` from `source`."""
    for name in signature.members:
        m.d.comb += getattr(control, name).eq(getattr(source, name))


class Lane(wiring.Component):
    """`result` (stage 9) of what `control` and the operands say; see Operands, Alu, Parameters, Table for the ports."""

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
                "write_bias": In(1),
                "write_multiplier": In(1),
                "write_shift": In(1),
                "parameter_word": In(32),
                "parameter_byte": In(8),
                "write_table": In(1),
                "table_word_address": In(range(table_words(config))),
                "table_word": In(8 * config.columns),
                "result": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        signature = LaneControl(self.config)
        m.submodules.operands = operands = Operands(self.config)
        m.submodules.parameters = parameters = Parameters()
        m.submodules.table = table = Table(self.config)
        m.submodules.alu = alu = Alu(self.config)
        drive_control(m, operands.control, signature, self.control)
        drive_control(m, alu.control, signature, self.control)
        m.d.comb += [
            operands.bytes8.eq(self.bytes8),
            operands.bytes16.eq(self.bytes16),
            operands.bytes32.eq(self.bytes32),
            operands.bytes64.eq(self.bytes64),
            operands.splat.eq(self.splat),
            operands.accumulator.eq(self.accumulator),
            operands.result.eq(alu.result),
            parameters.write_bias.eq(self.write_bias),
            parameters.write_multiplier.eq(self.write_multiplier),
            parameters.write_shift.eq(self.write_shift),
            parameters.word.eq(self.parameter_word),
            parameters.byte.eq(self.parameter_byte),
            table.write.eq(self.write_table),
            table.word_address.eq(self.table_word_address),
            table.word.eq(self.table_word),
            table.read.eq(self.control.s4_table),
            table.entry.eq(alu.table_entry),
            alu.a.eq(operands.a),
            alu.b.eq(operands.b),
            alu.bias.eq(parameters.bias),
            alu.multiplier.eq(parameters.multiplier),
            alu.shift.eq(parameters.shift),
            alu.table_low.eq(table.low),
            alu.table_high.eq(table.high),
            self.result.eq(alu.result),
        ]
        return m


__all__ = ["Lane", "drive_control"]
