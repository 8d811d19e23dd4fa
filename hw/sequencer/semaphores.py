"""The counting semaphores by which the units order themselves."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import COUNT_BITS, Tokens
from ..one_hot import any_of, only_if

COUNTER_BITS = 12
"""A semaphore counts to 4095 and wraps beyond."""
UNITS = 4


class Semaphores(wiring.Component):
    """`semaphores` counters for four units.

    The counters lie in a small memory that one grant or one signal changes per cycle; grants go first, either in
    the order LOAD, ARRAY, VECTOR, STORE. A wait is compared in one cycle and granted in the next one or later; a
    signal is seen by the comparisons from two cycles after it on, later if others go first.

    Ports:
        `load`, `array`, `vector`, `store`: the units.
        `clear`: all counters become zero, and signals that are not counted are dropped. While they do nothing is
            granted or counted.
        `waiting`: bit per unit, in this order: it asks and does not get in this cycle.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "load": In(Tokens()),
                "array": In(Tokens()),
                "vector": In(Tokens()),
                "store": In(Tokens()),
                "clear": In(1),
                "waiting": Out(UNITS),
            }
        )
        # The state, for the tests' proofs: the counters, and that they become zero; what each unit signalled and is not
        # yet counted; whether a unit's comparison found enough tokens.
        self.index_bits = max(config.semaphores - 1, 1).bit_length()
        self.counters = memory.Memory(shape=COUNTER_BITS, depth=1 << self.index_bits, init=[])
        self.signals, self.enough, self.clears = Signal(UNITS), Signal(UNITS), Signal()
        self.signalled = [
            (Signal(self.index_bits, name=f"semaphore{unit}"), Signal(COUNT_BITS, name=f"count{unit}"))
            for unit in range(UNITS)
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = (self.load, self.array, self.vector, self.store)
        index_bits, signals, enough = self.index_bits, self.signals, self.enough
        m.submodules.counters = counters = self.counters
        write, old = counters.write_port(), counters.read_port(domain="comb")

        clears = self.clears
        cleared = Signal(index_bits)
        with m.If(self.clear):
            m.d.sync += clears.eq(1)
        with m.Elif(cleared.all()):
            m.d.sync += clears.eq(0)
        m.d.sync += cleared.eq(Mux(clears, cleared + 1, 0))

        # One grant or one signal per cycle, all of them from registers.
        grants, counts = _first(enough), _first(signals)
        granted = Signal()
        changes: list[tuple[Value, Value, Value]] = []  # bit of who makes it, semaphore, count
        m.d.comb += granted.eq(enough.any())
        for unit, port in enumerate(ports):
            m.d.comb += [port.ok.eq(grants[unit]), self.waiting[unit].eq(port.wait & ~port.ok)]
            changes.append((grants[unit], port.semaphore, port.count))

            semaphore, count = self.signalled[unit]
            signalled = Signal(name=f"signalled{unit}")
            m.d.comb += [signalled.eq(counts[unit] & ~granted), port.signal_full.eq(signals[unit])]
            with m.If(~signals[unit]):
                m.d.sync += [semaphore.eq(port.signal_semaphore), count.eq(port.signal_count)]
            m.d.sync += signals[unit].eq(Mux(signals[unit], ~signalled | clears, port.signal) & ~self.clear)
            changes.append((signalled, semaphore, count))
        changed = Signal(index_bits)
        amount = Signal(COUNTER_BITS)
        total = Signal(COUNTER_BITS + 1)
        m.d.comb += [
            changed.eq(any_of(only_if(bit, semaphore) for bit, semaphore, _ in changes)),
            amount.eq(any_of(only_if(bit, count) for bit, _, count in changes)),
            old.addr.eq(changed),
            write.en.eq(clears | granted | signals.any()),
            write.addr.eq(Mux(clears, cleared, changed)),
            # Minus `amount` is plus its complement plus one, which comes in below.
            total.eq(Cat(Const(1, 1), old.data) + Cat(granted, amount ^ granted.replicate(COUNTER_BITS))),
            write.data.eq(Mux(clears, 0, total[1:])),
        ]

        for unit, port in enumerate(ports):
            seen = counters.read_port(domain="comb")
            m.d.comb += seen.addr.eq(port.semaphore)
            # What was granted in this cycle is not subtracted yet. A unit that got its tokens has another command next.
            taken = granted & (changed == port.semaphore[:index_bits])
            m.d.sync += enough[unit].eq(
                port.wait & (seen.data >= port.count) & ~taken & ~clears & ~self.clear
            )
        return m


def _first(asking: Signal) -> list[Value]:
    """The bits of `asking`, of which the lowest that is set remains."""
    return [bit & ~asking[:index].any() if index else bit for index, bit in enumerate(asking)]
