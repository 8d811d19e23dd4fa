"""Which fault to report when something goes wrong: the unit's own, or what the watchdog found."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..interfaces import Status
from ..isa import Error, Unit

CODE_BITS, UNIT_BITS = 4, 3
"""Of isa.Error and isa.Unit, as the register ERROR has them."""
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
        `watchdog`: the watchdog fired; in the cycle before, nothing moved.
        `fault`: the fault of this cycle.
    """

    load: In(Status())
    array: In(Status())
    vector: In(Status())
    store: In(Status())
    waiting: In(4)
    starving: In(1)
    watchdog: In(1)
    fault: Out(Fault)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        statuses = (self.load, self.array, self.vector, self.store)
        stuck = Signal(Unit, init=Unit.SEQUENCER)
        # Off the critical path: that a unit is busy is known late in the cycle. Where the watchdog fires nothing has
        # moved in the cycle before, so that the same units were busy.
        busy = Signal(len(statuses))
        m.d.sync += busy.eq(Cat(status.busy for status in statuses))
        # The last assignment that applies wins, so the strongest reason comes last.
        for bit, unit in reversed(tuple(enumerate(_UNITS))):
            with m.If(busy[bit]):
                m.d.comb += stuck.eq(unit)
        for bit, unit in reversed(tuple(enumerate(_UNITS))):
            with m.If(self.waiting[bit]):
                m.d.comb += stuck.eq(unit)
        for bit, unit in ((3, Unit.STORE), (0, Unit.LOAD)):
            with m.If(busy[bit] & ~self.waiting[bit]):
                m.d.comb += stuck.eq(unit)
        with m.If(self.starving):
            m.d.comb += stuck.eq(Unit.SEQUENCER)

        m.d.comb += [
            self.fault.code.eq(Error.WATCHDOG),
            self.fault.unit.eq(stuck),
            self.fault.valid.eq(self.watchdog),
        ]
        for unit, status in reversed(tuple(zip(_UNITS, statuses, strict=True))):
            with m.If(status.error):
                m.d.comb += [
                    self.fault.valid.eq(1),
                    self.fault.code.eq(status.code),
                    self.fault.unit.eq(unit),
                ]
        return m
