"""The counting semaphores by which the units order themselves."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import COUNT_BITS, SEMAPHORE_BITS, Tokens
from ..one_hot import any_of, only_if

COUNTER_BITS = 12
"""A semaphore counts to 4095 and wraps beyond."""
UNITS = 4


class ForeignTokens(wiring.Signature):
    """What a core's semaphores exchange with those of other cores, from the core's side.

    Ports:
        sends (core_mask_bits, out): to these cores; from registers, as are the two below.
        semaphore (SEMAPHORE_BITS, out): which of theirs.
        count (COUNT_BITS, out): how many tokens.
        taken (core_mask_bits, in): they have them, in this cycle.
        comes (1, in): tokens from another core; only while `full` is low.
        full (1, out): from a register.
        coming_semaphore (SEMAPHORE_BITS, in): where they go.
        coming_count (COUNT_BITS, in): how many.
    """

    def __init__(self, core_mask_bits: int):
        some = core_mask_bits > 0
        super().__init__(
            {
                "sends": Out(core_mask_bits),
                "semaphore": Out(SEMAPHORE_BITS * some),
                "count": Out(COUNT_BITS * some),
                "taken": In(core_mask_bits),
                "comes": In(1 * some),
                "full": Out(1 * some),
                "coming_semaphore": In(SEMAPHORE_BITS * some),
                "coming_count": In(COUNT_BITS * some),
            }
        )


class Semaphores(wiring.Component):
    """`semaphores` counters for four units of core number `core`.

    The counters lie in a small memory that one grant or one signal changes per cycle; grants go first, either in
    the order LOAD, ARRAY, VECTOR, STORE. A wait is compared in one cycle and granted in the next one or later; a
    signal is seen by the comparisons from two cycles after it on, later if others go first.

    A SIGNAL for other cores is offered to them, one after the other, and is counted here only if this core is among
    those it is for. Tokens from other cores come in as a fifth unit's would.

    Ports:
        `load`, `array`, `vector`, `store`: the units.
        `foreign`: the other cores, if there are any.
        `clear`: all counters become zero, and signals that are not counted are dropped. While they do nothing is
            granted or counted.
        `waiting`: bit per unit, in this order: it asks and does not get in this cycle.
    """

    def __init__(self, config: Config, core: int = 0):
        self.config, self._core, self._mask_bits = config, core, config.core_mask_bits
        tokens = Tokens(self._mask_bits)
        super().__init__(
            {
                "load": In(tokens),
                "array": In(tokens),
                "vector": In(tokens),
                "store": In(tokens),
                "foreign": Out(ForeignTokens(self._mask_bits)),
                "clear": In(1),
                "waiting": Out(UNITS),
            }
        )
        # The state, for the tests' proofs: the counters, and that they become zero; what each unit signalled and is not
        # yet counted; whether a unit's comparison found enough tokens, and which ones it asked for.
        self.index_bits = max(config.semaphores - 1, 1).bit_length()
        self.counters = memory.Memory(shape=COUNTER_BITS, depth=1 << self.index_bits, init=[])
        sources = UNITS + (self._mask_bits > 0)
        self.signals, self.enough, self.clears = Signal(sources), Signal(UNITS), Signal()
        self.signalled = [
            (Signal(self.index_bits, name=f"semaphore{unit}"), Signal(COUNT_BITS, name=f"count{unit}"))
            for unit in range(sources)
        ]
        self.asked = [
            (
                Signal(self.index_bits, name=f"asked_semaphore{unit}"),
                Signal(COUNT_BITS, name=f"asked_count{unit}"),
            )
            for unit in range(UNITS)
        ]
        # What each unit signalled to other cores, and they do not have yet: a bit per core.
        self.for_others = [Signal(self._mask_bits, name=f"for_others{unit}") for unit in range(UNITS)]

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
        grants, counts = first_of(enough), first_of(signals)
        granted = Signal()
        changes: list[tuple[Value, Value, Value]] = []  # bit of who makes it, semaphore, count
        m.d.comb += granted.eq(enough.any())
        for unit, port in enumerate(ports):
            m.d.comb += [port.ok.eq(grants[unit]), self.waiting[unit].eq(port.wait & ~port.ok)]
            # Off the critical path: a command comes late, out of its queue's memory. A unit asks on for the same.
            semaphore, count = self.asked[unit]
            m.d.sync += [semaphore.eq(port.semaphore), count.eq(port.count)]
            changes.append((grants[unit], semaphore, count))

            mine = port.signal
            if self._mask_bits:
                mine = port.signal & (~port.signal_cores.any() | port.signal_cores[self._core])
            full = signals[unit] | self.for_others[unit].any()
            m.d.comb += port.signal_full.eq(full)
            with m.If(~full):
                semaphore, count = self.signalled[unit]
                m.d.sync += [semaphore.eq(port.signal_semaphore), count.eq(port.signal_count)]
            changes.append(self._signalled(m, unit, counts[unit] & ~granted, mine))
        if self._mask_bits:
            semaphore, count = self.signalled[UNITS]
            m.d.comb += self.foreign.full.eq(signals[UNITS])
            with m.If(~signals[UNITS]):
                m.d.sync += [
                    semaphore.eq(self.foreign.coming_semaphore),
                    count.eq(self.foreign.coming_count),
                ]
            changes.append(self._signalled(m, UNITS, counts[UNITS] & ~granted, self.foreign.comes))
            self._send(m)
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

    def _signalled(self, m: Module, source: int, counted: Value, comes: Value) -> tuple[Value, Value, Value]:
        """Keeps what a unit or another core signalled until it is `counted`; the change that it makes."""
        signals, signalled = self.signals, Signal(name=f"signalled{source}")
        m.d.comb += signalled.eq(counted)
        m.d.sync += signals[source].eq(Mux(signals[source], ~signalled | self.clears, comes) & ~self.clear)
        return signalled, *self.signalled[source]

    def _send(self, m: Module) -> None:
        """One unit's tokens at a time go to other cores."""
        ports = (self.load, self.array, self.vector, self.store)
        waiting = Signal(UNITS)
        m.d.comb += waiting.eq(Cat(mask.any() for mask in self.for_others))
        first, others = first_of(waiting), ~(1 << self._core)
        for unit, port in enumerate(ports):
            mask, left = self.for_others[unit], Signal(self._mask_bits, name=f"left{unit}")
            m.d.comb += left.eq(mask & ~(self.foreign.taken & first[unit].replicate(self._mask_bits)))
            accepted = port.signal & ~port.signal_full
            m.d.sync += mask.eq(Mux(self.clear, 0, Mux(accepted, port.signal_cores & others, left)))
        m.d.comb += [
            self.foreign.sends.eq(
                any_of(only_if(bit, mask) for bit, mask in zip(first, self.for_others, strict=True))
            ),
            self.foreign.semaphore.eq(
                any_of(only_if(bit, kept[0]) for bit, kept in zip(first, self.signalled, strict=False))
            ),
            self.foreign.count.eq(
                any_of(only_if(bit, kept[1]) for bit, kept in zip(first, self.signalled, strict=False))
            ),
        ]


def first_of(asking: Signal) -> list[Value]:
    """The bits of `asking`, of which the lowest that is set remains."""
    return [bit & ~asking[:index].any() if index else bit for index, bit in enumerate(asking)]
