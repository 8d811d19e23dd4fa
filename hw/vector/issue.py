"""Issues slots of micro-ops when all they need is there."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .layouts import IssueFields, LoopPlace


class Issuer(wiring.Component):
    """Holds the place the loop counter named last and issues it, beat by beat.

    A slot's first beat waits for its vector of the array, and, if it reads a register, until fewer slots than the batch
    has had their last beat in the last `vector_latency_cycles` - 1 cycles: then the same slot of the micro-op before
    it, and all before that, are old enough. The other beats follow at once.

    Ports:
        running (1, in), next_place (Place, in): the loop counter's place.
        advance (1, out): `next_place` is taken.
        fields (IssueFields, in): the micro-op at `place`, read by `advance` from the program (one cycle later).
        first (1, in), more (1, in): the beat to issue is the slot's first one; another one follows.
        array_valid (1, in), array_ready (1, out): handshake of the accumulators' stream.
        issue (1, out): a beat of the slot at `place` goes.
        load (1, out): it reads the activation memory, whose reads for this unit are always granted.
        place (Place, out): the place to issue.
        busy (1, out): there is a place to issue.
        stall_array (1, out): nothing is issued for want of a vector of the array.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "running": In(1),
                "next_place": In(LoopPlace(config)),
                "advance": Out(1),
                "fields": In(IssueFields),
                "first": In(1),
                "more": In(1),
                "array_valid": In(1),
                "array_ready": Out(1),
                "issue": Out(1),
                "load": Out(1),
                "place": Out(LoopPlace(config)),
                "busy": Out(1),
                "stall_array": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.advance.eq(~self.busy | (self.issue & ~self.more))
        with m.If(self.advance):
            m.d.sync += self.busy.eq(self.running)
        with m.If(self.advance & self.running):
            m.d.sync += self.place.eq(self.next_place)

        # Slots issued to their end in the last latency - 1 cycles, as a history and as a number.
        ended = Signal()
        m.d.comb += ended.eq(self.issue & ~self.more)
        history = Signal(self.config.vector_latency_cycles - 1)
        young, left = (
            Signal(range(self.config.vector_latency_cycles), name=name) for name in ("young", "left")
        )
        m.d.comb += left.eq(young - history[-1])
        m.d.sync += [history.eq(Cat(ended, history)), young.eq(left + ended)]
        # Whether they are fewer than the slots of a batch, in a register: much depends on it. What it will be is known
        # both ways before it is known whether a slot ends, which another one follows at once.
        few, count, next_count = Signal(), self.place.count, self.next_place.count
        m.d.sync += few.eq(Mux(ended, left + 1 < next_count, left < Mux(self.busy, count, next_count)))

        takes = self.fields.array & self.first
        old_enough = ~self.fields.registers | ~self.first | few
        array_there = ~takes | self.array_valid
        m.d.comb += [
            self.issue.eq(self.busy & old_enough & array_there),
            self.load.eq(self.issue & self.fields.loads.any()),
            self.array_ready.eq(self.issue & takes),
            self.stall_array.eq(self.busy & old_enough & ~array_there),
        ]
        return m
