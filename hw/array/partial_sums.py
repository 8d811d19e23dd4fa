"""Sums that one depthwise GO hands on to the next one."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..memory.words import NO_COLLISION_LOGIC
from .accumulate import ACCUMULATOR_BITS
from .layouts import by_column, by_lane


class PartialSums(wiring.Component):
    """A memory of `partial_sums` vectors. Both the places read and those written count from 0 in each GO, and round
    again after the last one.

    A GO reads a place before it writes it. The next GO reads it when it is written: before its first sum begins,
    weights enter all rows.

    Ports:
        restart_reads (1, in): place 0 is read next.
        read (1, in): the next vector is read.
        vector (32 W, out): two cycles later: that vector. Zero in all other cycles.
        restart_writes (1, in): place 0 is written next.
        write (1, in), sums (32 W, in): the next vector is written.
    """

    def __init__(self, config: Config):
        self._config, self._depth = config, config.partial_sums
        vector_bits = ACCUMULATOR_BITS * config.columns
        super().__init__(
            {
                "restart_reads": In(1),
                "read": In(1),
                "vector": Out(vector_bits),
                "restart_writes": In(1),
                "write": In(1),
                "sums": In(vector_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = memory.Memory(
            shape=len(self.sums), depth=self._depth, init=[], attrs=NO_COLLISION_LOGIC
        )
        read, write = places.read_port(), places.write_port()
        # Columns of one lane lie side by side, so that a block of the memory has its place beside them.
        stored = Signal(len(self.sums))
        m.d.comb += [
            read.en.eq(self.read),
            stored.eq(by_column(self._config, read.data, ACCUMULATOR_BITS)),
            write.en.eq(self.write),
            write.data.eq(by_lane(self._config, self.sums, ACCUMULATOR_BITS)),
        ]
        for port, restart, step in (
            (read, self.restart_reads, self.read),
            (write, self.restart_writes, self.write),
        ):
            with m.If(restart):
                m.d.sync += port.addr.eq(0)
            with m.Elif(step):
                m.d.sync += port.addr.eq(port.addr + 1)
        was_read = Signal()
        m.d.sync += [was_read.eq(self.read), self.vector.eq(Mux(was_read, stored, 0))]
        return m
