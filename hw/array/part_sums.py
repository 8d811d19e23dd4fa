"""Adds up what the parts of divided rows sum."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .accumulate import ACCUMULATOR_BITS
from .layouts import place_bits


class PartSums(wiring.Component):
    """Keeps a vector per row of a part. A place is written by a row of one part, and read by that of the next one, at
    least four slots later.

    Ports:
        add (1, in), place (0..divided_rows/2-1, in): a cycle before `sums`: what is kept at `place` is to be added.
        sums (32 W, in): what a row has summed.
        total (32 W, out): `sums` and what was kept, in the same cycle.
        gather (1, in): in this cycle `total` is kept, at the `place` of the cycle before.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = ACCUMULATOR_BITS * config.columns
        super().__init__(
            {
                "add": In(1),
                "place": In(place_bits(config)),
                "sums": In(vector_bits),
                "total": Out(vector_bits),
                "gather": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = memory.Memory(
            shape=len(self.sums), depth=self._config.divided_rows // 2, init=[]
        )
        read, write = places.read_port(domain="comb"), places.write_port()
        # The reset of the registers takes the place of a gate.
        kept, place = Signal(len(self.sums)), Signal.like(self.place)
        m.d.comb += read.addr.eq(self.place)
        m.d.sync += [kept.eq(Mux(self.add, read.data, 0)), place.eq(self.place)]
        m.d.comb += [
            self.total.eq(
                Cat(
                    (self.sums.word_select(c, ACCUMULATOR_BITS) + kept.word_select(c, ACCUMULATOR_BITS))[
                        :ACCUMULATOR_BITS
                    ]
                    for c in range(self._config.columns)
                )
            ),
            write.en.eq(self.gather),
            write.addr.eq(place),
            write.data.eq(self.total),
        ]
        return m
