"""The loop counters of a kernel: rows, runs of bytes, chunks of W bytes."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode
from ..layouts import fields
from .layouts import COLUMN_BITS, LINE_BITS


class KernelCounter(wiring.Component):
    """Counts the steps of a tile, and gives what a step adds to the place of a pixel.

    Ports:
        load (1, in): step 0 is next.
        kernel (ARRAY_KERNEL, in): the configuration, held while running.
        advance (1, in): the next step, after the last one step 0. Not in the three cycles after `load` or `advance`.
        last (1, out): this is the last step; from the second cycle of the step on.
        column (signed COLUMN_BITS, out): what the step adds to the byte position in the row.
        line (LINE_BITS, out): what it adds to the image row.
        base (address bits, out): what it adds to the address beyond `column`.
    """

    def __init__(self, config: Config):
        self._word_bytes = config.word_bytes
        address_bits = (config.am_bytes - 1).bit_length()
        super().__init__(
            {
                "load": In(1),
                "kernel": In(fields(Opcode.ARRAY_KERNEL)),
                "advance": In(1),
                "last": Out(1),
                "column": Out(signed(COLUMN_BITS)),
                "line": Out(LINE_BITS),
                "base": Out(address_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kernel = self.kernel
        # Counted from 1. A step has at least four slots, so that what follows from the counters may be a cycle late.
        ky, run = (
            Signal.like(kernel.ky_count, reset_less=True),
            Signal.like(kernel.run_count, reset_less=True),
        )
        chunk = Signal.like(kernel.chunks, reset_less=True)
        column = Signal.like(self.column, reset_less=True)
        run_column = Signal.like(self.column, reset_less=True)
        next_run_column = Signal.like(self.column, reset_less=True)
        line, base = Signal.like(self.line, reset_less=True), Signal.like(self.base, reset_less=True)
        last_ky, last_run, last_chunk = (
            Signal(reset_less=True),
            Signal(reset_less=True),
            Signal(reset_less=True),
        )
        m.d.sync += [
            last_ky.eq(ky == kernel.ky_count),
            last_run.eq(run == kernel.run_count),
            last_chunk.eq(chunk == kernel.chunks),
            next_run_column.eq(Mux(last_run, 0, run_column + kernel.run_step)),
        ]
        m.d.comb += [
            self.column.eq(column),
            self.line.eq(line),
            self.base.eq(base),
            self.last.eq(last_ky & last_run & last_chunk),
        ]
        with m.If(self.advance):
            m.d.sync += [
                chunk.eq(Mux(last_chunk, 1, chunk + 1)),
                column.eq(Mux(last_chunk, next_run_column, column + self._word_bytes)),
            ]
            with m.If(last_chunk):
                m.d.sync += [run.eq(Mux(last_run, 1, run + 1)), run_column.eq(next_run_column)]
                with m.If(last_run):
                    m.d.sync += [
                        ky.eq(Mux(last_ky, 1, ky + 1)),
                        line.eq(Mux(last_ky, 0, line + kernel.ky_step)),
                        base.eq(Mux(last_ky, 0, base + kernel.ky_step_bytes)),
                    ]
        with m.If(self.load):
            m.d.sync += [ky.eq(1), run.eq(1), chunk.eq(1)]
            m.d.sync += [run_column.eq(0), column.eq(0), line.eq(0), base.eq(0)]
        return m
