"""The loop counters of an output-stationary job: slots of a step, tiles, blocks."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode, width
from .layouts import ArrayJob


class DenseCounter(wiring.Component):
    """Counts the slots of a step and the blocks of a tile. Steps are the kernel counter's.

    A step has at least four slots. So what changes at its end has settled in registers long before its next end:
    `last_tile` and `tile_rows` in the step's second cycle, `done` in the third.

    Ports:
        load (1, in), first (ArrayJob, in): a job may begin in the next cycle, `first` if it is taken.
        running (1, in), job (ArrayJob, in): an output-stationary job is running, and which.
        advance (1, in): a slot is taken.
        left (ARRAY_GO.pixels, in): pixels from this tile on.
        last_step (1, in): this is the tile's last step; from the step's second cycle on.
        start (1, out): first slot of a step.
        read (1, out): the slot reads a pixel of the tile.
        move (1, out): the slot has a row, with a pixel or without; the next pixel follows.
        step_end (1, out): last slot of a step.
        go_back (1, out): last slot of a step; the next step walks the same pixels again.
        tile_begin (1, out): first slot of a tile or of a block.
        tile_end (1, out): last slot of a tile's block.
        tile_done (1, out): last slot of a tile.
        last (1, out): last slot of the job.
        tile_rows (0..rows, out): pixels of this tile; from the tile's second cycle on.
        fresh (1, out): weights are read for the first time, and each waits for its `streamed` load.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "load": In(1),
                "first": In(ArrayJob()),
                "running": In(1),
                "job": In(ArrayJob()),
                "advance": In(1),
                "left": In(width(Opcode.ARRAY_GO, "pixels")),
                "last_step": In(1),
                "start": Out(1),
                "read": Out(1),
                "move": Out(1),
                "step_end": Out(1),
                "go_back": Out(1),
                "tile_begin": Out(1),
                "tile_end": Out(1),
                "tile_done": Out(1),
                "last": Out(1),
                "tile_rows": Out(range(config.rows + 1)),
                "fresh": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows, columns = self._config.rows, self._config.columns
        phase = Signal(range(columns), reset_less=True)  # slot of the step
        step_begin, step_end, tile_begin = Signal(), Signal(), Signal(reset_less=True)
        tile_rows, last_tile = Signal(range(rows + 1), reset_less=True), Signal(reset_less=True)
        fresh, done = Signal(reset_less=True), Signal(reset_less=True)
        blocks_left = Signal(width(Opcode.ARRAY_GO, "more_blocks"), reset_less=True)  # after this one
        again = Signal(reset_less=True)  # another block follows
        m.d.sync += [
            last_tile.eq(self.left <= rows),
            tile_rows.eq(Mux(self.left <= rows, self.left, rows)),
            again.eq(blocks_left.any()),
            done.eq(self.last_step & ~again),
        ]
        m.d.comb += [
            self.start.eq(self.running & step_begin),
            # The first pixel is always there, and `tile_rows` not yet.
            self.read.eq(self.running & (step_begin | (phase < tile_rows))),
            self.move.eq(self.running & (phase < rows)),
            self.step_end.eq(step_end),
            self.go_back.eq(step_end & ~done),
            self.tile_begin.eq(tile_begin),
            self.tile_end.eq(step_end & self.last_step),
            self.tile_done.eq(step_end & done),
            self.last.eq(step_end & done & last_tile),
            self.tile_rows.eq(tile_rows),
            self.fresh.eq(fresh),
        ]
        with m.If(self.advance & self.running):
            m.d.sync += [
                phase.eq(Mux(step_end, 0, phase + 1)),
                step_begin.eq(step_end),
                step_end.eq(phase == columns - 2),
                tile_begin.eq(self.tile_end),
            ]
            with m.If(self.tile_end & again):
                m.d.sync += blocks_left.eq(blocks_left - 1)
            with m.If(self.tile_done):
                m.d.sync += fresh.eq(0)
        with m.If(self.load):
            m.d.sync += [phase.eq(0), step_begin.eq(1), step_end.eq(0), tile_begin.eq(1)]
            m.d.sync += [blocks_left.eq(self.first.more_blocks), fresh.eq(self.first.streamed)]
        return m
