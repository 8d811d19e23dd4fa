"""Finds the advances of the depthwise mode in which the sum of an output begins."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import Opcode
from ..layouts import fields


class OutputCounter(wiring.Component):
    """Counts vectors t and finds the outputs: t = skip + line * y_stride * y + x_stride * x.

    Ports:
        load (1, in), first (ARRAY_DEPTHWISE, in): t = 0 is next, under the configuration `first`.
        running (ARRAY_DEPTHWISE, in): the configuration, held while running.
        advance (1, in): t goes on.
        output (1, out): the sum of an output enters row 0 with vector t; combinational.
    """

    def __init__(self) -> None:
        layout = fields(Opcode.ARRAY_DEPTHWISE)
        super().__init__(
            {"load": In(1), "first": In(layout), "running": In(layout), "advance": In(1), "output": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running, first = self.running, self.first
        # Off the critical path: the counters count down to 1, and a flag of each tells where it stands without a
        # comparison.
        skip, skipped = Signal.like(first.skip, reset_less=True), Signal(reset_less=True)
        column, line_end, short_line = Signal.like(first.line, reset_less=True), Signal(), Signal()
        x_wait, x_left = (
            Signal.like(first.x_stride, reset_less=True),
            Signal.like(first.out_width, reset_less=True),
        )
        y_wait, y_left = (
            Signal.like(first.y_stride, reset_less=True),
            Signal.like(first.out_height, reset_less=True),
        )
        x_some, y_some = Signal(), Signal()
        x_due, y_due, any_x = Signal(), Signal(), Signal()
        m.d.comb += [
            x_due.eq(x_wait == 1),
            y_due.eq(y_wait == 1),
            self.output.eq(skipped & x_due & x_some & y_due & y_some),
        ]
        with m.If(self.advance):
            with m.If(~skipped):
                m.d.sync += [skip.eq(skip - 1), skipped.eq(skip == 1)]
            with m.Elif(line_end):
                m.d.sync += [
                    column.eq(running.line),
                    line_end.eq(short_line),
                    x_wait.eq(1),
                    x_left.eq(running.out_width),
                    x_some.eq(any_x),
                    y_wait.eq(Mux(y_due, running.y_stride, y_wait - 1)),
                ]
                with m.If(y_due & y_some):
                    m.d.sync += [y_left.eq(y_left - 1), y_some.eq(y_left != 1)]
            with m.Else():
                m.d.sync += [
                    column.eq(column - 1),
                    line_end.eq(column == 2),
                    x_wait.eq(Mux(x_due, running.x_stride, x_wait - 1)),
                ]
                with m.If(x_due & x_some):
                    m.d.sync += [x_left.eq(x_left - 1), x_some.eq(x_left != 1)]
        with m.If(self.load):
            m.d.sync += [
                skip.eq(first.skip),
                skipped.eq(first.skip == 0),
                column.eq(first.line),
                line_end.eq(first.line == 1),
                short_line.eq(first.line == 1),
                x_wait.eq(1),
                y_wait.eq(1),
                x_left.eq(first.out_width),
                y_left.eq(first.out_height),
                x_some.eq(first.out_width.any()),
                any_x.eq(first.out_width.any()),
                y_some.eq(first.out_height.any()),
            ]
        return m
