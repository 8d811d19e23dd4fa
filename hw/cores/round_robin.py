"""Whose turn it is."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RoundRobin(wiring.Component):
    """Chooses one of those who ask: the next one behind who was chosen last. Nobody who goes on asking is passed over
    by another one twice.

    Ports:
        `asks`: bit per requester.
        `chosen`: number of one that asks, if any does; combinational.
        `next`: in this cycle it gets what it asks for.
    """

    def __init__(self, count: int):
        if count < 2:
            raise ValueError(f"count must be at least 2, not {count}")
        self.count = count
        super().__init__({"asks": In(count), "chosen": Out(range(count)), "next": In(1)})
        # The state, for the tests' proofs: who was chosen last.
        self.last = Signal(range(count), init=count - 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.Switch(self.last):
            for last in range(self.count):
                with m.Case(last):
                    order = [(last + 1 + step) % self.count for step in range(self.count)]
                    choice = order[-1]
                    for number in reversed(order[:-1]):
                        choice = Mux(self.asks[number], number, choice)
                    m.d.comb += self.chosen.eq(choice)
        with m.If(self.next):
            m.d.sync += self.last.eq(self.chosen)
        return m
