"""One lane: parameters, registers, table, arithmetic."""

from amaranth.hdl import Array, Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from ..config import Config
from .alu import Alu
from .lane_control import LaneControl
from .operands import Operands
from .params import Parameters, ParameterWrite
from .table import Table, TableWrite


class Lane(wiring.Component):
    """W of them make up the vector unit, or fewer, each of which serves several columns.

    Ports:
        control (LaneControl, in): what to do.
        selected (1, in): stage 10: the lane belongs to the beat.
        element (vector_bits, in): stage 2: the lane's element of the loaded word, extended.
        accumulator (32, in): stage 2: the array's output for this lane.
        write_parameters (ParameterWrite per column, in): bias, multiplier and shift of each of the lane's columns.
        write_table (TableWrite, in): the lane's table.
        result (vector_bits, out): stage 10: the result.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "control": In(LaneControl(config)),
                "selected": In(1),
                "element": In(config.vector_bits),
                "accumulator": In(signed(32)),
                "write_parameters": In(ParameterWrite()).array(config.lane_columns),
                "write_table": In(TableWrite(config)),
                "result": Out(signed(config.vector_bits)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.operands = operands = Operands(self.config)
        parameters = [Parameters() for _ in range(self.config.lane_columns)]
        for column, each in enumerate(parameters):
            m.submodules[f"parameters_{column}"] = each
            connect(m, flipped(self.write_parameters[column]), each.write)
        m.submodules.table = table = Table(self.config)
        m.submodules.alu = alu = Alu(self.config)
        connect(m, flipped(self.control), operands.control, alu.control)
        connect(m, flipped(self.write_table), table.write)
        m.d.comb += [
            operands.selected.eq(self.selected),
            operands.element.eq(self.element),
            operands.accumulator.eq(self.accumulator),
            operands.result.eq(alu.result),
            table.read.eq(self.control.s5_table),
            table.entry.eq(alu.table_entry),
            alu.a.eq(operands.a),
            alu.b.eq(operands.b),
            alu.bias.eq(Array(each.bias for each in parameters)[self.control.s1_column]),
            alu.multiplier.eq(Array(each.multiplier for each in parameters)[self.control.s2_column]),
            alu.shift.eq(Array(each.shift for each in parameters)[self.control.s2_column]),
            alu.table_low.eq(table.low),
            alu.table_high.eq(table.high),
            self.result.eq(alu.result),
        ]
        return m
