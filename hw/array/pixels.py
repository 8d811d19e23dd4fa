"""Walks output pixels in raster order by additions."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode
from .layouts import COLUMN_BITS, LINE_BITS, fields


class Pixel(data.StructLayout):
    """Where a pixel's window begins: `column` (xb0), `line` (iy0), `base` (AM address minus `column`), and
    the pixels left in its pixel row, this one included."""

    def __init__(self, config: Config):
        address_bits = (config.am_bytes - 1).bit_length()
        super().__init__(
            {"column": signed(COLUMN_BITS), "line": signed(LINE_BITS), "base": address_bits, "left": 16}
        )


class Pixels(wiring.Component):
    """The current pixel, with a mark to go back to (every step of a tile walks the tile's pixels again).

    load: begin at pixel 0 (taken at the clock edge) of `first_input` and `first_window`.
    window: the configuration held while running.
    advance: the slot is taken; `move` to the next pixel, then `set_mark` there or `go_back` to the mark.
    pixel: the current pixel.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "load": In(1),
                "first_input": In(fields(Opcode.ARRAY_INPUT)),
                "first_window": In(fields(Opcode.ARRAY_WINDOW)),
                "window": In(fields(Opcode.ARRAY_WINDOW)),
                "advance": In(1),
                "move": In(1),
                "set_mark": In(1),
                "go_back": In(1),
                "pixel": Out(Pixel(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        window = self.window
        pixel, mark = (Signal(Pixel(self._config), reset_less=True, name=n) for n in ("current", "mark"))
        following, first = (Signal(Pixel(self._config), name=n) for n in ("following", "first"))
        wrap = Signal()
        m.d.comb += [
            self.pixel.eq(pixel),
            wrap.eq(pixel.left == 1),
            following.eq(pixel),
            first.column.eq(self.first_window.x_start),
            first.line.eq(self.first_window.y_start),
            first.base.eq(self.first_input.address - self.first_window.x_start),
            first.left.eq(self.first_window.width),
        ]
        with m.If(self.move):
            m.d.comb += [
                following.column.eq(Mux(wrap, window.x_start, pixel.column + window.x_step)),
                following.left.eq(Mux(wrap, window.width, pixel.left - 1)),
            ]
            with m.If(wrap):
                m.d.comb += [
                    following.line.eq(pixel.line + window.y_step),
                    following.base.eq(pixel.base + window.y_step_bytes),
                ]
        with m.If(self.advance):
            m.d.sync += pixel.eq(Mux(self.go_back, mark, following))
            with m.If(self.set_mark):
                m.d.sync += mark.eq(following)
        with m.If(self.load):
            m.d.sync += [pixel.eq(first), mark.eq(first)]
        return m
