"""Event counters and layer marks of a run."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ..csr_map import COUNTERS, MARKS, REGISTER
from ..memory.words import NO_COLLISION_LOGIC

Events = data.StructLayout({name.lower(): 1 for name, _ in COUNTERS})
"""One bit per event counter of the register map: the event happens in this cycle."""


_PLACE_BITS = 5
_RECENT_BITS = 6
"""A counter's turn comes every 1 << _PLACE_BITS cycles, and half as many more when the host reads all the time."""


def place(name: str) -> int:
    """Returns the place of this register's counter: the value of `Counters.index` when it is read."""
    return (REGISTER[name].offset >> 2) % (1 << _PLACE_BITS)


class Counters(wiring.Component):
    """Counts cycles and events while the program runs.

    The 32-bit counts lie in a small memory with one adder. Every event has a few bits of its own, which are moved
    there when its turn comes. Without `count_events` there are cycles only.

    Ports:
        `running`: counters count in this cycle.
        `clear`: counters are zero from the next cycle on.
        `events`: what happens in this cycle.
        `cycles`: cycles with `running`, 64 bits.
        `read`: `count` shows from the next cycle on the counter whose register is at word `index`, modulo 32; not more
            often than every third cycle.
        `count`: 32 bits; wraps; held until the next `read`. 0 without `count_events`.
    """

    running: In(1)
    clear: In(1)
    events: In(Events)
    cycles: Out(64)
    read: In(1)
    index: In(_PLACE_BITS)
    count: Out(32)

    def __init__(self, *, count_events: bool = True):
        self._count_events = count_events
        super().__init__()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.If(self.clear):
            m.d.sync += self.cycles.eq(0)
        with m.Elif(self.running):
            m.d.sync += self.cycles.eq(self.cycles + 1)
        if self._count_events:
            self._add_events(m)
        return m

    def _add_events(self, m: Module) -> None:
        # Events are counted a cycle late: they come at the end of long paths.
        happened = Signal(Events)
        m.d.sync += happened.as_value().eq(Mux(self.running & ~self.clear, self.events.as_value(), 0))

        m.submodules.counts = counts = memory.Memory(shape=32, depth=1 << _PLACE_BITS, init=[])
        write, old = counts.write_port(), counts.read_port(domain="comb")
        turn = Signal(_PLACE_BITS)
        all_written = Signal()  # since the last clear; before, those in front of `turn`
        shown = Signal(_PLACE_BITS)
        total = Signal(32)
        with m.If(self.read):
            m.d.sync += self.count.eq(total)
        recent_of = Array(Const(0, _RECENT_BITS) for _ in range(1 << _PLACE_BITS))
        event_of = Array(Const(0, 1) for _ in range(1 << _PLACE_BITS))
        for name, _ in COUNTERS:
            event = happened[name.lower()]
            recent = Signal(_RECENT_BITS, name=f"recent_{name.lower()}")
            recent_of[place(name)], event_of[place(name)] = recent, event
            # Bit by bit: as small as a counter can be.
            flips: Value = event
            for bit in recent:
                m.d.sync += bit.eq(bit ^ flips)
                flips = flips & bit
            with m.If(self.clear | (~self.read & (turn == place(name)))):
                m.d.sync += recent.eq(0)
        m.d.comb += [
            shown.eq(Mux(self.read, self.index, turn)),
            old.addr.eq(shown),
            total.eq(
                Mux(all_written | (self.read & (self.index < turn)), old.data, 0)
                + recent_of[shown]
                + event_of[shown]
            ),
            write.addr.eq(turn),
            write.data.eq(total),
            write.en.eq(~self.read),
        ]
        with m.If(self.clear):
            m.d.sync += [turn.eq(0), all_written.eq(0)]
        with m.Elif(~self.read):
            m.d.sync += [turn.eq(turn + 1), all_written.eq(all_written | turn.all())]


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
        m.submodules.marks = marks = memory.Memory(shape=48, depth=MARKS, init=[], attrs=NO_COLLISION_LOGIC)
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
