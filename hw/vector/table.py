"""One lane's copy of the lookup table."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..memory.words import NO_COLLISION_LOGIC

TABLE_ENTRIES = 512


def table_words(config: Config) -> int:
    """Memory words that a full table fills."""
    return TABLE_ENTRIES * 4 // config.columns


class Table(wiring.Component):
    """512 entries of 32 bits, written a memory word (W bytes) at a time.

    - `write` stores `word` (W/4 entries) at `word_address`.
    - `read` looks up `entry`; `low` and `high` (signed halves) hold it in the next cycle and until the next read.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "write": In(1),
                "word_address": In(range(table_words(config))),
                "word": In(8 * config.columns),
                "read": In(1),
                "entry": In(9),
                "low": Out(signed(16)),
                "high": Out(signed(16)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = 8 * self.config.columns
        m.submodules.memory = memory = Memory(
            shape=width, depth=table_words(self.config), init=[], attrs=NO_COLLISION_LOGIC
        )
        read, write = memory.read_port(), memory.write_port()
        # Which entry of the word: chosen after the read.
        place_bits = (width // 32).bit_length() - 1
        place = Signal(place_bits)
        with m.If(self.read):
            m.d.sync += place.eq(self.entry[:place_bits])
        value = Signal(32)
        with m.Switch(place):
            for i in range(width // 32):
                with m.Case(i):
                    m.d.comb += value.eq(read.data[32 * i :][:32])
        m.d.comb += [
            read.en.eq(self.read),
            read.addr.eq(self.entry[place_bits:]),
            write.en.eq(self.write),
            write.addr.eq(self.word_address),
            write.data.eq(self.word),
            self.low.eq(value[:16]),
            self.high.eq(value[16:]),
        ]
        return m


__all__ = ["TABLE_ENTRIES", "Table", "table_words"]
