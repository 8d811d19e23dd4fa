"""The loops of a VECTOR_GO: batches, repetitions of the body, micro-ops, slots."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config


class Walker(wiring.Component):
    """Names the micro-op and the slot to run, one after the other.

    - `start`: a GO with the parameters `vectors`, `slots`, `repeats`, `body_start`, `body_end`, `uops` (isa.py) begins;
      the first place is there in the next cycle. Not while `running`; at least one vector.
    - `pauses`: with `start`: between two batches `running` is low and `paused` is high until `resume`.
    - `running`: `index` (micro-op), `slot`, `count` (slots of this batch) and `iteration` (repetition of the body; 0
      outside the body) name a place. `advance` goes to the next one.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "vectors": In(24),
                "slots": In(5),
                "repeats": In(16),
                "body_start": In(5),
                "body_end": In(5),
                "uops": In(5),
                "pauses": In(1),
                "paused": Out(1),
                "resume": In(1),
                "running": Out(1),
                "index": Out(range(max(config.vector_uops, 2))),
                "slot": Out(range(max(config.vector_slots, 2))),
                "count": Out(range(config.vector_slots + 1)),
                "iteration": Out(16),
                "advance": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots = Signal.like(self.slots)
        body_start = Signal.like(self.body_start)
        body_end = Signal.like(self.body_end)
        uops = Signal.like(self.uops)
        repeats = Signal(16)
        pauses = Signal()
        # Vectors of the batches after this one, repetitions after this one.
        vectors_left = Signal(24)
        repeats_left = Signal(16)

        def take_batch(vectors: Signal, limit: Signal) -> list:
            rest = vectors - limit  # one subtraction for rest and comparison
            last = vectors < limit
            return [self.count.eq(Mux(last, vectors, limit)), vectors_left.eq(Mux(last, 0, rest))]

        following = Signal(range(self.config.vector_uops + 1))
        m.d.comb += following.eq(self.index + 1)

        with m.If(self.start):
            m.d.sync += [
                slots.eq(self.slots),
                body_start.eq(self.body_start),
                body_end.eq(self.body_end),
                uops.eq(self.uops),
                pauses.eq(self.pauses),
                repeats.eq(Mux(self.body_start == self.body_end, 0, self.repeats - 1)),
                repeats_left.eq(Mux(self.body_start == self.body_end, 0, self.repeats - 1)),
                self.running.eq(1),
                self.index.eq(0),
                self.slot.eq(0),
                self.iteration.eq(0),
                *take_batch(self.vectors, self.slots),
            ]
        with m.Elif(self.paused):
            with m.If(self.resume):
                m.d.sync += [self.paused.eq(0), self.running.eq(1)]
        with m.Elif(self.running & self.advance):
            m.d.sync += self.slot.eq(self.slot + 1)
            with m.If(self.slot + 1 == self.count):
                m.d.sync += [self.slot.eq(0), self.index.eq(following)]
                with m.If((following == body_end) & (repeats_left != 0)):
                    m.d.sync += [
                        self.index.eq(body_start),
                        self.iteration.eq(self.iteration + 1),
                        repeats_left.eq(repeats_left - 1),
                    ]
                with m.Elif(following == uops):
                    m.d.sync += [
                        self.index.eq(0),
                        self.iteration.eq(0),
                        repeats_left.eq(repeats),
                        self.running.eq((vectors_left != 0) & ~pauses),
                        self.paused.eq((vectors_left != 0) & pauses),
                        *take_batch(vectors_left, slots),
                    ]
                with m.Elif(following == body_end):
                    m.d.sync += self.iteration.eq(0)
        return m


__all__ = ["Walker"]
