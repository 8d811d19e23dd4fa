"""Which advances of the depthwise mode end in an output."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import Opcode
from .layouts import fields


class Positions(wiring.Component):
    """Counts advances t and tells the outputs' t = skip + y*line + x apart.

    load: begin with `first` as configuration (taken at the clock edge).
    first: configuration to begin with; running: the same, held while running.
    advance: t goes on.
    output: advance t is an output (combinational, before `advance`).
    """

    def __init__(self) -> None:
        layout = fields(Opcode.ARRAY_DEPTHWISE)
        super().__init__(
            {"load": In(1), "first": In(layout), "running": In(layout), "advance": In(1), "output": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        running = self.running
        skip, column = Signal(24, reset_less=True), Signal(16, reset_less=True)
        x_wait, x_left = Signal(6, reset_less=True), Signal(16, reset_less=True)
        y_wait, y_left = Signal(6, reset_less=True), Signal(16, reset_less=True)
        x_due, y_due = Signal(), Signal()
        m.d.comb += [
            x_due.eq((x_wait == 0) & x_left.any()),
            y_due.eq((y_wait == 0) & y_left.any()),
            self.output.eq((skip == 0) & x_due & y_due),
        ]
        with m.If(self.advance):
            with m.If(skip != 0):
                m.d.sync += skip.eq(skip - 1)
            with m.Elif(column == running.line - 1):
                m.d.sync += [column.eq(0), x_wait.eq(0), x_left.eq(running.out_width)]
                with m.If(y_wait == 0):
                    m.d.sync += [y_wait.eq(running.y_stride - 1), y_left.eq(y_left - y_due)]
                with m.Else():
                    m.d.sync += y_wait.eq(y_wait - 1)
            with m.Else():
                m.d.sync += column.eq(column + 1)
                with m.If(x_wait == 0):
                    m.d.sync += [x_wait.eq(running.x_stride - 1), x_left.eq(x_left - x_due)]
                with m.Else():
                    m.d.sync += x_wait.eq(x_wait - 1)
        with m.If(self.load):
            m.d.sync += [
                skip.eq(self.first.skip),
                column.eq(0),
                x_wait.eq(0),
                y_wait.eq(0),
                x_left.eq(self.first.out_width),
                y_left.eq(self.first.out_height),
            ]
        return m
