"""One lane: parameters, registers, table, arithmetic."""

from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from .alu import Alu
from .lane_control import LaneControl
from .operands import Operands
from .params import Parameters, ParameterWrite
from .table import Table, TableWrite


class Lane(wiring.Component):
    """W of them make up the vector unit.

    Ports:
        control (LaneControl, in): what to do.
        selected (1, in): stage 9: the lane belongs to the beat.
        element (vector_bits, in): stage 2: the lane's element of the loaded word, extended.
        accumulator (32, in): stage 2: the array's output for this lane.
        write_parameters (ParameterWrite, in): the lane's bias, multiplier and shift.
        write_table (TableWrite, in): the lane's table.
        result (vector_bits, out): stage 9: the result.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "selected": In(1),
                "element": In(config.vector_bits),
                "accumulator": In(signed(32)),
                "write_parameters": In(ParameterWrite()),
                "write_table": In(TableWrite(config)),
                "result": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.operands = operands = Operands(self.config)
        m.submodules.parameters = parameters = Parameters()
        m.submodules.table = table = Table(self.config)
        m.submodules.alu = alu = Alu(self.config)
        connect(m, flipped(self.control), operands.control, alu.control)
        connect(m, flipped(self.write_parameters), parameters.write)
        connect(m, flipped(self.write_table), table.write)
        m.d.comb += [
            operands.selected.eq(self.selected),
            operands.element.eq(self.element),
            operands.accumulator.eq(self.accumulator),
            operands.result.eq(alu.result),
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
