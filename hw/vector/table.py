"""One lane's copy of the lookup table."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..memory.words import NO_COLLISION_LOGIC
from .layouts import TABLE_ENTRIES, table_words


class TableWrite(wiring.Signature):
    """A write of a lane's table.

    Ports:
        enable (1, out): store the W/4 entries of `word` at word `address`.
        address (0..table_words-1, out), word (8 W, out): what to store where.
    """

    def __init__(self, config: Config):
        super().__init__(
            {"enable": Out(1), "address": Out(range(table_words(config))), "word": Out(8 * config.columns)}
        )


class Table(wiring.Component):
    """TABLE_ENTRIES entries of 32 bits, written a memory word (W bytes) at a time.

    Ports:
        write (TableWrite, in): a word to store.
        read (1, in), entry (0..TABLE_ENTRIES-1, in): look up this entry.
        low, high (16, out): its halves, from the next cycle on until the next read.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "write": In(TableWrite(config)),
                "read": In(1),
                "entry": In(range(TABLE_ENTRIES)),
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
        # The memory gives a word of several entries; one of them is chosen after the read.
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
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.word),
            self.low.eq(value[:16]),
            self.high.eq(value[16:]),
        ]
        return m
