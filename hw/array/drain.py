"""Finished accumulators on their way to the vector unit."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import accumulators
from ..memory.blocks import Queue
from .accumulate import ACCUMULATOR_BITS
from .layouts import by_column, by_lane


class Drain(wiring.Component):
    """A FIFO whose places are reserved when a vector's slot is issued, so that the PE array never has to wait.

    Ports:
        room (1, out): a place is free.
        reserve (1, in): it is taken by a vector that will come. Only with `room`.
        write (1, in), vector (32 W, in): a reserved vector comes.
        accumulators (accumulators, out): vectors in order.
        empty (1, out): nothing is reserved.
    """

    def __init__(self, config: Config):
        self._config, self._depth = config, max(config.rows, config.drain_vectors)
        super().__init__(
            {
                "room": Out(1),
                "reserve": In(1),
                "write": In(1),
                "vector": In(ACCUMULATOR_BITS * config.columns),
                "accumulators": Out(accumulators(config)),
                "empty": Out(1),
            }
        )
        # The state, for the tests' proofs: vectors that have a place.
        self.reserved = Signal(range(self._depth + 1))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.vectors = vectors = Queue(width=len(self.vector), depth=self._depth)
        # Off the critical path: `reserve` arrives late, so it only enables the counter, and `room` has a register.
        reserved, full, sent = self.reserved, Signal(), Signal()
        m.d.comb += [
            self.room.eq(~full),
            self.empty.eq(reserved == 0),
            # Columns of one lane lie side by side, so that a block of the memory has its place beside them.
            vectors.w_data.eq(by_lane(self._config, self.vector, ACCUMULATOR_BITS)),
            vectors.w_en.eq(self.write),
            self.accumulators.payload.as_value().eq(
                by_column(self._config, vectors.r_data, ACCUMULATOR_BITS)
            ),
            self.accumulators.valid.eq(vectors.r_rdy),
            sent.eq(self.accumulators.valid & self.accumulators.ready),
            vectors.r_en.eq(sent),
        ]
        with m.If(self.reserve ^ sent):
            m.d.sync += [
                reserved.eq(Mux(sent, reserved - 1, reserved + 1)),
                full.eq(~sent & (reserved == self._depth - 1)),
            ]
        return m
