"""The loop counters of an output-stationary job: slots of a step, tiles, blocks."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import Opcode, width
from .layouts import ArrayJob, split_levels


class DenseCounter(wiring.Component):
    """Counts the slots of a step and the blocks of a tile. Steps are the kernel counter's.

    In a tile of few pixels the rows are divided into parts, each of which has a step of its own: while W slots pass,
    `divided_rows` / parts slots read for one step, and the next ones for the next step.

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
        step_end (1, out): last of the W slots of a step, or of a step of each part.
        step_taken (1, out): last slot that reads for a step; another step follows.
        exhausted (1, out): all steps of the tile are taken; the parts that are left have none.
        split (bit per level, out): the rows are divided.
        go_back (1, out): last slot that reads for a step; the next step walks the same pixels again.
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
                "step_taken": Out(1),
                "exhausted": Out(1),
                "split": Out(split_levels(self._config)),
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
        exhausted = Signal(reset_less=True)
        blocks_left = Signal(width(Opcode.ARRAY_GO, "more_blocks"), reset_less=True)  # after this one
        again = Signal(reset_less=True)  # another block follows
        m.d.sync += [
            last_tile.eq(self.left <= rows),
            tile_rows.eq(Mux(self.left <= rows, self.left, rows)),
            again.eq(blocks_left.any()),
            done.eq((self.last_step | exhausted) & ~again),
        ]
        part_end = self._divide(m, exhausted, step_end, phase)
        place = self._place(m, phase, part_end)
        m.d.comb += [
            self.start.eq(self.running & step_begin),
            # The first pixel is always there, and `tile_rows` not yet.
            self.read.eq(self.running & (step_begin | (place < tile_rows)) & ~exhausted),
            self.move.eq(self.running & (phase < rows)),
            self.step_end.eq(step_end),
            self.step_taken.eq(part_end & ~exhausted),
            self.exhausted.eq(exhausted),
            self.go_back.eq(part_end & ~(step_end & done)),
            self.tile_begin.eq(tile_begin),
            self.tile_end.eq(step_end & (self.last_step | exhausted)),
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

    def _divide(self, m: Module, exhausted: Signal, step_end: Signal, phase: Signal) -> Value:
        """Divides the rows, and takes the steps of the parts; whether this is the last slot that reads for a step."""
        config, first = self._config, self.first
        levels = split_levels(config)
        sizes = [config.divided_rows >> (level + 1) for level in range(levels)]
        if not levels:
            m.d.comb += exhausted.eq(0)
            return step_end
        split, following = Signal(levels, reset_less=True), Signal(levels, reset_less=True)
        divisible, part_end = Signal(reset_less=True), Signal(reset_less=True)
        m.d.comb += self.split.eq(split)

        def level_of(pixels: Value, whole: int) -> Value:
            """The level of a tile that has `pixels` - `whole` pixels."""
            fits = [pixels <= whole + size for size in sizes]
            return Cat(fit & ~deeper for fit, deeper in zip(fits, [*fits[1:], Const(0)], strict=True))

        # The next tile's level has settled long before this tile's end.
        m.d.sync += following.eq(level_of(self.left, config.rows) & divisible.replicate(levels))
        with m.If(self.advance & self.running):
            # The places of a part's rows are the low bits of `phase`. The last part has what is left of the W slots.
            ends = [
                split[level] & (phase[: exact_log2(size)] == size - 2) & (phase < config.divided_rows - size)
                for level, size in enumerate(sizes)
            ]
            m.d.sync += part_end.eq((phase == config.columns - 2) | Cat(ends).any())
            with m.If(part_end):
                m.d.sync += exhausted.eq(~step_end & (exhausted | self.last_step))
            with m.If(self.tile_done):
                m.d.sync += split.eq(following)
        # Words that two tiles' parts read in a cycle are in different banks if weights begin at whole steps.
        aligned = ~first.weights[: exact_log2(config.columns)].any()
        plain = first.drain & ~first.accumulate & ~first.streamed & (first.input.weight_zp == 0) & aligned
        with m.If(self.load):
            m.d.sync += [
                part_end.eq(0),
                exhausted.eq(0),
                divisible.eq(plain),
                split.eq(level_of(first.count, 0) & plain.replicate(levels)),
            ]
        return part_end

    def _place(self, m: Module, phase: Signal, part_end: Value) -> Value:
        """The number, in its part, of the row that the slot reads for."""
        if not split_levels(self._config):
            return phase
        place = Signal.like(phase, reset_less=True)
        with m.If(self.advance & self.running):
            m.d.sync += place.eq(Mux(part_end, 0, place + 1))
        with m.If(self.load):
            m.d.sync += place.eq(0)
        return place
