"""Which row of the PE array delivers in a slot of the output-stationary mode."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config


class DeliveryCounter(wiring.Component):
    """Row i does what row 0 did i slots ago: row 0 delivers in a tile's last slot, row i in the i-th slot after it.

    Ports:
        advance (1, in): a slot is taken.
        mac (1, in): the slot is one of an output-stationary job.
        drain (1, in): the slot ends a tile of `tile_rows` rows that is to be delivered.
        tile_rows (0..rows, in): rows that deliver, at least 1.
        deliver (1, out): in this slot row `row` delivers.
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
                "deliver": Out(1),
                "row": Out(range(config.rows)),
                "flushing": Out(1),
                "flushed": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows = self._config.rows
        flush_left, flushing = Signal(range(rows + 1)), Signal()  # flush_left != 0
        left, delivering = Signal(range(rows + 1)), Signal()  # left != 0
        row = Signal(range(rows), reset_less=True)
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
        return m
