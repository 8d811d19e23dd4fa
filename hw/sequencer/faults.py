"""Which fault to report when something goes wrong: the unit's own, or what the watchdog found."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import UnitStatus
from ..isa import Error, Unit

CODE_BITS, UNIT_BITS = 4, 3
"""Bits of isa.Error and of isa.Unit in the register ERROR."""
Fault = data.StructLayout({"valid": 1, "code": CODE_BITS, "unit": UNIT_BITS})
"""A fault in this cycle: isa.Error and isa.Unit."""
_UNITS = (Unit.LOAD, Unit.ARRAY, Unit.VECTOR, Unit.STORE)


class Faults(wiring.Component):
    """Chooses one fault per cycle.

    Errors of units go first, in the order LOAD, ARRAY, VECTOR, STORE. When the watchdog fired, the unit to
    blame is the one that the others depend on: the sequencer if it waits for the program, a DMA unit that
    waits for the bus, the first unit that waits for a semaphore, the first that is busy, and if nothing
    explains it the sequencer.

    Ports:
        `load`, `array`, `vector`, `store`: the units' status.
        `waiting`: bit per unit in this order: it waits for a semaphore.
        `starving`: the sequencer waits for the program.
        `watchdog`: the watchdog fired.
        `fault`: the fault of this cycle.
    """

    load: In(UnitStatus())
    array: In(UnitStatus())
    vector: In(UnitStatus())
    store: In(UnitStatus())
    waiting: In(4)
    starving: In(1)
    watchdog: In(1)
    fault: Out(Fault)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Off the critical path: that VECTOR is busy is known late in the cycle, so what follows is known both ways.
        idle, busy = (self._unit(m, vector_is_busy) for vector_is_busy in (False, True))
        m.d.comb += [
            self.fault.code.eq(Error.WATCHDOG),
            self.fault.unit.eq(Mux(self.vector.busy, busy, idle)),
            self.fault.valid.eq(self.watchdog),
        ]
        for status in reversed(self._statuses):
            with m.If(status.error):
                m.d.comb += [self.fault.valid.eq(1), self.fault.code.eq(status.code)]
        return m

    @property
    def _statuses(self) -> tuple[wiring.PureInterface, ...]:
        return self.load, self.array, self.vector, self.store

    def _unit(self, m: Module, vector_is_busy: bool) -> Signal:
        """Whose the fault is, if VECTOR is busy or is not."""
        unit, statuses = Signal(Unit, init=Unit.SEQUENCER, name=f"unit_if_{vector_is_busy}"), self._statuses
        # The last assignment that applies wins, so the strongest reason comes last.
        for bit, each in reversed(tuple(enumerate(_UNITS))):
            with m.If(vector_is_busy if each is Unit.VECTOR else statuses[bit].busy):
                m.d.comb += unit.eq(each)
        for bit, each in reversed(tuple(enumerate(_UNITS))):
            with m.If(self.waiting[bit]):
                m.d.comb += unit.eq(each)
        for bit, each in ((3, Unit.STORE), (0, Unit.LOAD)):
            with m.If(statuses[bit].busy & ~self.waiting[bit]):
                m.d.comb += unit.eq(each)
        with m.If(self.starving):
            m.d.comb += unit.eq(Unit.SEQUENCER)
        for bit, each in reversed(tuple(enumerate(_UNITS))):
            with m.If(statuses[bit].error):
                m.d.comb += unit.eq(each)
        return unit
