"""The loop counters of the output pixels, in raster order; addresses by additions."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode
from ..layouts import fields
from .layouts import COLUMN_BITS, LINE_BITS


class Pixel(data.StructLayout):
    """Where a pixel's window begins.

    - `column`, `line`: byte position in the image row (xb0), and the row (iy0).
    - `base`: AM address minus `column`.
    - `left`: pixels left in its pixel row, with this one; `wrap`: it is the last one.
    """

    def __init__(self, config: Config):
        address_bits = (config.am_bytes - 1).bit_length()
        super().__init__(
            {
                "column": signed(COLUMN_BITS),
                "line": signed(LINE_BITS),
                "base": address_bits,
                "left": fields(Opcode.ARRAY_WINDOW)["width"].shape,
                "wrap": 1,
            }
        )


class PixelCounter(wiring.Component):
    """The current pixel, with a mark to go back to (every step of a tile walks the tile's pixels again).

    Ports:
        load (1, in): pixel 0 of `first_input` and `first_window` is next.
        first_input (ARRAY_INPUT, in), first_window (ARRAY_WINDOW, in): configuration to begin with.
        window (ARRAY_WINDOW, in): the configuration, held while running.
        advance (1, in): the slot is taken; `move` and `go_back` count with it.
        move (1, in): the next pixel follows.
        set_mark (1, in): mark the current pixel.
        go_back (1, in): the marked pixel follows.
        pixel (Pixel, out): the current pixel.
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        window, first = self.window, self.first_window
        pixel, mark = (Signal(Pixel(self._config), reset_less=True, name=n) for n in ("current", "mark"))
        single = Signal(reset_less=True)  # rows of one pixel
        m.d.comb += self.pixel.eq(pixel)
        with m.If(self.load):
            m.d.sync += [
                pixel.column.eq(first.x_start),
                pixel.line.eq(first.y_start),
                pixel.base.eq(self.first_input.address - first.x_start),
                pixel.left.eq(first.width),
                pixel.wrap.eq(first.width == 1),
                single.eq(first.width == 1),
            ]
        with m.Elif(self.advance & self.go_back):
            m.d.sync += pixel.eq(mark)
        with m.Elif(self.advance & self.move):
            m.d.sync += [
                pixel.column.eq(Mux(pixel.wrap, window.x_start, pixel.column + window.x_step)),
                pixel.left.eq(Mux(pixel.wrap, window.width, pixel.left - 1)),
                pixel.wrap.eq(Mux(pixel.wrap, single, pixel.left == 2)),
            ]
            with m.If(pixel.wrap):
                m.d.sync += [
                    pixel.line.eq(pixel.line + window.y_step),
                    pixel.base.eq(pixel.base + window.y_step_bytes),
                ]
        with m.If(self.set_mark):
            m.d.sync += mark.eq(pixel)
        return m
