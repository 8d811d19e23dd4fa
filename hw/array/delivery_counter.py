"""Which row of the PE array delivers in a slot of the output-stationary mode."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from .layouts import place_bits, split_levels


class DeliveryCounter(wiring.Component):
    """Row i does what row 0 did i slots ago: row 0 delivers in a tile's last slot, row i in the i-th slot after it.
    Where the rows are divided, the rows of all parts but the last gather what the last part's deliver.

    Ports:
        advance (1, in): a slot is taken.
        mac (1, in): the slot is one of an output-stationary job.
        drain (1, in): the slot ends a tile of `tile_rows` rows that is to be delivered.
        tile_rows (0..rows, in): rows that deliver, at least 1.
        split (bit per level, in): with `drain`: the rows of this tile are divided.
        deliver (1, out): in this slot row `row` delivers.
        gather (1, out): in this slot row `row` has a part of a sum, to be kept at `place`.
        add (1, out): what is kept at `place` belongs to the sum.
        place (0..divided_rows/2-1, out): the number of the row in its part.
        row (0..rows-1, out): the row that delivers.
        flushing (1, out): some rows are not through; empty slots must come if there is no job.
        flushed (1, out): all rows are through when the next slot is taken, or before.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "advance": In(1),
                "mac": In(1),
                "drain": In(1),
                "tile_rows": In(range(config.rows + 1)),
                "split": In(split_levels(config)),
                "deliver": Out(1),
                "gather": Out(1),
                "add": Out(1),
                "place": Out(place_bits(config)),
                "row": Out(range(config.rows)),
                "flushing": Out(1),
                "flushed": Out(1),
            }
        )
        # The state, for the tests' proofs: rows that still have their turn, that there are some, and the next one; how
        # the rows are divided, and the pixels of their tile.
        self.left = Signal(range(config.rows + 1))
        self.delivering = Signal()
        self.next_row = Signal(range(config.rows), reset_less=True)
        self.divided = Signal(split_levels(config))
        self.pixels = Signal(range(config.rows + 1), reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._config.rows
        flush_left, flushing = Signal(range(rows + 1)), Signal()  # flush_left != 0
        left, delivering, row = self.left, self.delivering, self.next_row
        m.d.comb += [
            self.flushing.eq(flushing),
            self.flushed.eq(flush_left <= 1),
            self.deliver.eq(self.drain | delivering),
            self.row.eq(Mux(self.drain, 0, row)),
        ]
        with m.If(self.advance):
            with m.If(self.mac):
                m.d.sync += [flush_left.eq(rows - 1), flushing.eq(rows > 1)]
            with m.Elif(flushing):
                m.d.sync += [flush_left.eq(flush_left - 1), flushing.eq(flush_left != 1)]
            with m.If(self.drain):
                m.d.sync += [left.eq(self.tile_rows - 1), delivering.eq(self.tile_rows != 1), row.eq(1)]
            with m.Elif(delivering):
                m.d.sync += [left.eq(left - 1), delivering.eq(left != 1), row.eq(row + 1)]
        if split_levels(self._config):
            self._gather(m)
        return m

    def _gather(self, m: Module) -> None:
        """Divided rows: all of them have their turn, but those without a pixel deliver nothing."""
        rows, levels = self._config.divided_rows, split_levels(self._config)
        left, delivering = self.left, self.delivering
        split, pixels = self.divided, self.pixels
        with m.If(self.advance & self.drain):
            m.d.sync += [split.eq(self.split), pixels.eq(self.tile_rows)]
            with m.If(self.split.any()):
                m.d.sync += [left.eq(rows - 1), delivering.eq(1)]
        divided = Mux(self.drain, self.split, split)
        place, is_first, is_last = Signal.like(self.place), Signal(), Signal()
        for level in range(levels):
            # The high bits of a row's number tell the part, the low bits the place.
            high = exact_log2(rows)
            low = high - level - 1
            with m.If(divided[level]):
                m.d.comb += [
                    place.eq(self.row[:low]),
                    is_first.eq(~self.row[low:high].any()),
                    is_last.eq(self.row[low:high].all()),
                ]
        with m.If(divided.any()):
            m.d.comb += [
                self.deliver.eq(delivering & ~self.drain & is_last & (place < pixels)),
                self.gather.eq(self.drain | (delivering & ~is_last & (place < pixels))),
                self.add.eq(~is_first),
                self.place.eq(place),
            ]
