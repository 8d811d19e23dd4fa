"""Issues slots of micro-ops when all they need is there."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .program import Issue


class Issuer(wiring.Component):
    """Holds the place the walker named last and issues it.

    A slot waits for its vector of the array, and, if it reads a register, until fewer slots than the batch has were
    issued in the last `vector_latency_cycles` - 1 cycles: then the same slot of the micro-op before it, and all before
    that, are old enough.

    - `running`, `index`, `slot`, `count`, `iteration`: the walker's place; taken with `advance`.
    - `fields`: the micro-op at `place_index`, read by `advance` from the program (one cycle later).
    - `array_valid`, `array_ready`: the accumulators' stream.
    - `load`: what is issued reads the activation memory, whose reads for this unit are always granted.
    - `issue`: the slot `place_slot` of micro-op `place_index` in repetition `place_iteration` goes.
    - `busy`: there is a place to issue.
    - `stall_array`: nothing is issued for want of a vector of the array.
    """

    def __init__(self, config: Config):
        self.config = config
        index, slot = range(max(config.vector_uops, 2)), range(config.vector_slots)
        super().__init__(
            {
                "running": In(1),
                "index": In(index),
                "slot": In(slot),
                "count": In(range(config.vector_slots + 1)),
                "iteration": In(16),
                "advance": Out(1),
                "fields": In(Issue),
                "array_valid": In(1),
                "array_ready": Out(1),
                "load": Out(1),
                "issue": Out(1),
                "place_index": Out(index),
                "place_slot": Out(slot),
                "place_iteration": Out(16),
                "busy": Out(1),
                "stall_array": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal.like(self.count)
        m.d.comb += self.advance.eq(~self.busy | self.issue)
        with m.If(self.advance):
            m.d.sync += self.busy.eq(self.running)
        with m.If(self.advance & self.running):
            m.d.sync += [
                self.place_index.eq(self.index),
                self.place_slot.eq(self.slot),
                self.place_iteration.eq(self.iteration),
                count.eq(self.count),
            ]

        # Slots issued in the last latency - 1 cycles, as a history and as a number.
        history = Signal(self.config.vector_latency_cycles - 1)
        young = Signal(range(self.config.vector_latency_cycles))
        m.d.sync += [history.eq(Cat(self.issue, history)), young.eq(young + self.issue - history[-1])]

        old_enough = ~self.fields.registers | (young < count)
        array_there = ~self.fields.array | self.array_valid
        m.d.comb += [
            self.issue.eq(self.busy & old_enough & array_there),
            self.load.eq(self.issue & self.fields.load),
            self.array_ready.eq(self.issue & self.fields.array),
            self.stall_array.eq(self.busy & old_enough & ~array_there),
        ]
        return m


__all__ = ["Issuer"]
