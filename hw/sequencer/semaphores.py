"""The counting semaphores by which the units order themselves."""

import functools
import operator

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import Tokens

COUNTER_BITS = 12
"""A semaphore counts to 4095 and wraps beyond."""
UNITS = 4


class Semaphores(wiring.Component):
    """`semaphores` counters for four units, all of which may wait and signal in the same cycle.

    A wait sees the signals of earlier cycles. When several units wait for the same semaphore in a cycle, the
    first in the order LOAD, ARRAY, VECTOR, STORE for which it is enough gets it, the others try again.

    Ports:
        `load`, `array`, `vector`, `store`: the units.
        `clear`: all counters are zero from the next cycle on.
        `waiting`: bit per unit, in this order: it asks for more than there is.
    """

    def __init__(self, config: Config):
        if config.semaphores > 16:
            raise ValueError(f"semaphores must be at most 16 (a field of 4 bits), not {config.semaphores}")
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ports = (self.load, self.array, self.vector, self.store)
        counters = Array(Signal(COUNTER_BITS, name=f"semaphore{i}") for i in range(self.config.semaphores))

        # A unit that finds enough tokens either gets them or a unit before it gets the same semaphore's: so
        # who before it finds enough decides it, without a chain of grants.
        enough = Signal(UNITS)
        for unit, port in enumerate(ports):
            taken_before = [
                enough[before] & (ports[before].semaphore == port.semaphore) for before in range(unit)
            ]
            m.d.comb += [
                enough[unit].eq(port.wait & (counters[port.semaphore] >= port.count)),
                port.ok.eq(enough[unit] & ~Cat(taken_before).any()),
                self.waiting[unit].eq(port.wait & ~port.ok),
            ]

        changes = Signal()
        m.d.comb += changes.eq(Cat(port.ok | port.signal for port in ports).any())
        with m.If(changes):
            for index, counter in enumerate(counters):
                added = [
                    Mux(port.signal & (port.signal_semaphore == index), port.signal_count, 0)
                    for port in ports
                ]
                subtracted = [Mux(port.ok & (port.semaphore == index), port.count, 0) for port in ports]
                m.d.sync += counter.eq(
                    counter
                    + functools.reduce(operator.add, added)
                    - functools.reduce(operator.or_, subtracted)
                )
        with m.If(self.clear):
            m.d.sync += [counter.eq(0) for counter in counters]
        return m
