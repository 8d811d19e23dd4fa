"""Event counters and layer marks of a run."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import COUNTERS, MARKS

Events = data.StructLayout({name.lower(): 1 for name, _ in COUNTERS})
"""One bit per event counter of the register map: the event happens in this cycle."""


class Counters(wiring.Component):
    """Counts cycles and events while the program runs.

    Ports:
        `running`: counters count in this cycle.
        `clear`: counters are zero from the next cycle on.
        `events`: what happens in this cycle.
        `cycles`: cycles with `running`, 64 bits.
        `counts`: 32 bits per event, in the order of `Events`; they wrap.
    """

    running: In(1)
    clear: In(1)
    events: In(Events)
    cycles: Out(64)
    counts: Out(data.ArrayLayout(32, len(COUNTERS)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Events are counted a cycle late: they come at the end of long paths.
        happened = Signal(Events)
        m.d.sync += happened.as_value().eq(Mux(self.running & ~self.clear, self.events.as_value(), 0))
        with m.If(self.clear):
            m.d.sync += [self.cycles.eq(0), self.counts.eq(0)]
        with m.Else():
            with m.If(self.running):
                m.d.sync += self.cycles.eq(self.cycles + 1)
            for index, (name, _) in enumerate(COUNTERS):
                with m.If(happened[name.lower()]):
                    m.d.sync += self.counts[index].eq(self.counts[index] + 1)
        return m


class Marks(wiring.Component):
    """Remembers when layers ended.

    Ports:
        `mark`: record (`mark_layer`, `cycle`) as the next mark; dropped when MARKS marks are there.
        `clear`: no marks from the next cycle on.
        `count`: marks recorded, 0..MARKS.
        `index`: mark to show; `layer` and `shown_cycle` show it two cycles later, undefined from `count` on.
    """

    mark: In(1)
    mark_layer: In(16)
    cycle: In(32)
    clear: In(1)
    count: Out(range(MARKS + 1))
    index: In(range(MARKS))
    layer: Out(16)
    shown_cycle: Out(32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.marks = marks = memory.Memory(shape=48, depth=MARKS, init=[])
        write, read = marks.write_port(), marks.read_port()
        has_room = Signal()
        m.d.comb += [
            has_room.eq(self.count != MARKS),
            write.addr.eq(self.count[: len(self.index)]),
            write.data.eq(Cat(self.mark_layer, self.cycle)),
            write.en.eq(self.mark & has_room),
            read.addr.eq(self.index),
            Cat(self.layer, self.shown_cycle).eq(read.data),
        ]
        m.d.sync += self.count.eq(Mux(self.clear, 0, self.count + (self.mark & has_room)))
        return m
