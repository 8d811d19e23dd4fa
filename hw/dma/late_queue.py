"""A FIFO whose reader may make up its mind late in the cycle."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2


class LateQueue(wiring.Component):
    """Cycle by cycle what the library's SyncFIFO is, but that something is read is counted a cycle later: `r_en` only
    moves the place to read at.

    Ports, with the library's names:
        w_en (1, in), w_data (width, in): written where `w_rdy`.
        w_rdy (1, out): there is room.
        r_en (1, in): only with `r_rdy`: the oldest word is taken.
        r_data (width, out), r_rdy (1, out): it, and whether there is one.
    """

    def __init__(self, *, width: int, depth: int):
        self.width, self.depth = width, depth
        super().__init__(
            {
                "w_en": In(1),
                "w_data": In(width),
                "w_rdy": Out(1),
                "r_en": In(1),
                "r_data": Out(width),
                "r_rdy": Out(1),
            }
        )
        # Words inside, one more where one was `read` in the cycle before; for the proofs.
        self.level, self.read = Signal(range(depth + 1)), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        level, read, write = self.level, self.read, Signal()
        m.submodules.storage = storage = Memory(shape=self.width, depth=self.depth, init=[])
        writer, reader = storage.write_port(), storage.read_port(domain="comb")
        index = exact_log2(self.depth)
        produce, consume = Signal(index), Signal(index)
        m.d.comb += [
            self.w_rdy.eq((level != self.depth) | read),
            self.r_rdy.eq(level != read),
            self.r_data.eq(reader.data),
            write.eq(self.w_en & self.w_rdy),
            writer.en.eq(write),
            writer.addr.eq(produce),
            writer.data.eq(self.w_data),
            reader.addr.eq(consume),
        ]
        m.d.sync += read.eq(self.r_en)
        with m.If(write):
            m.d.sync += produce.eq(produce + 1)
        with m.If(self.r_en):
            m.d.sync += consume.eq(consume + 1)
        with m.If(write & ~read):
            m.d.sync += level.eq(level + 1)
        with m.Elif(read & ~write):
            m.d.sync += level.eq(level - 1)
        return m


__all__ = ["LateQueue"]
