"""Walks the steps of a tile: kernel rows, runs of bytes, chunks of W bytes."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode
from .layouts import COLUMN_BITS, LINE_BITS, fields


class Steps(wiring.Component):
    """Offsets of the current step.

    load: begin at step 0 (taken at the clock edge).
    kernel: the configuration held while running.
    advance: go to the next step; after the last one to step 0. Not in the three cycles after `load` or `advance`.
    last: this is the last step (from the second cycle of the step on).
    column, line, base: what the step adds to a pixel's byte position, image row and (address - byte
    position).
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

    def elaborate(self, platform):
        m = Module()
        kernel = self.kernel
        # Counted from 1. A step has at least four slots: what follows from the counters has registers of its own.
        ky, run = Signal(13, reset_less=True), Signal(13, reset_less=True)
        chunk = Signal(16, reset_less=True)
        column, run_column, next_run_column = (
            Signal(signed(COLUMN_BITS), reset_less=True, name=name)
            for name in ("step_column", "run_column", "next_run_column")
        )
        line, base = Signal.like(self.line, reset_less=True), Signal.like(self.base, reset_less=True)
        last_ky, last_run, last_chunk = (
            Signal(reset_less=True, name=name) for name in ("last_ky", "last_run", "last_chunk")
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
            m.d.sync += [register.eq(1) for register in (ky, run, chunk)]
            m.d.sync += [register.eq(0) for register in (run_column, column, line, base)]
        return m
