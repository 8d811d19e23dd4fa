"""The loops of a VECTOR_GO: batches, repetitions of the body, micro-ops, slots."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import Opcode, layout
from .layouts import LoopPlace


class LoopCounter(wiring.Component):
    """Names the micro-op and the slot to run, one after the other.

    Ports:
        start (1, in), go (VECTOR_GO, in): a GO begins; its first place is there in the next cycle. Not while `running`.
        running (1, out): `place` is one to run.
        place (Place, out): the place.
        advance (1, in): the next place follows.
        paused (1, out): between two batches of a GO with `next_params`: not `running` until `resume`.
        resume (1, in): the next batch begins.
        idle (1, out): neither `running` nor `paused`, in a register of its own: all that waits for a GO depends on it.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "go": In(layout(Opcode.VECTOR_GO)),
                "running": Out(1),
                "place": Out(LoopPlace(config)),
                "advance": In(1),
                "paused": Out(1),
                "resume": In(1),
                "idle": Out(1, init=1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        place, given = self.place, self.go
        slots, uops, pauses = Signal.like(given.slots), Signal.like(given.uops), Signal()
        body_start, body_end = Signal.like(given.body_start), Signal.like(given.body_end)
        # What follows this batch, and what follows this repetition.
        vectors_left, repeats_left = Signal.like(given.vectors), Signal.like(given.repeats)
        repeats = Signal.like(given.repeats)

        def take_batch(vectors: Value, limit: Value) -> list:
            rest = vectors - limit  # the comparison below shares this subtraction
            last = vectors < limit
            return [place.count.eq(Mux(last, vectors, limit)), vectors_left.eq(Mux(last, 0, rest))]

        more_repeats = Mux(given.body_start == given.body_end, 0, given.repeats - 1)
        following = Signal(range(self.config.vector_uops + 1))
        # Off the critical path: what follows a place is known before it is known whether it does.
        ends_slots, repeats_body, ends_batch, more_batches = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            following.eq(place.index + 1),
            ends_slots.eq(place.slot + 1 == place.count),
            repeats_body.eq((following == body_end) & (repeats_left != 0)),
            ends_batch.eq(ends_slots & ~repeats_body & (following == uops)),
            more_batches.eq(vectors_left != 0),
        ]
        self._count_batches(m, ends_batch, more_batches, pauses)

        with m.If(self.start):
            m.d.sync += [
                slots.eq(given.slots),
                body_start.eq(given.body_start),
                body_end.eq(given.body_end),
                uops.eq(given.uops),
                pauses.eq(given.next_params),
                repeats.eq(more_repeats),
                repeats_left.eq(more_repeats),
                place.index.eq(0),
                place.slot.eq(0),
                place.iteration.eq(0),
                *take_batch(given.vectors, given.slots),
            ]
        with m.Elif(self.running & self.advance):
            m.d.sync += place.slot.eq(place.slot + 1)
            with m.If(ends_slots):
                m.d.sync += [place.slot.eq(0), place.index.eq(following)]
                with m.If(repeats_body):
                    m.d.sync += [
                        place.index.eq(body_start),
                        place.iteration.eq(place.iteration + 1),
                        repeats_left.eq(repeats_left - 1),
                    ]
                with m.Elif(following == body_end):
                    m.d.sync += place.iteration.eq(0)
            with m.If(ends_batch):
                m.d.sync += [
                    place.index.eq(0),
                    place.iteration.eq(0),
                    repeats_left.eq(repeats),
                    *take_batch(vectors_left, slots),
                ]
        return m

    def _count_batches(self, m: Module, ends_batch: Signal, more_batches: Signal, pauses: Signal) -> None:
        """Exactly one of `running`, `paused` and `idle`. A batch ends by `advance`, which comes late."""
        ends, pauses_then = Signal(), Signal()
        stops = ends_batch & ~(more_batches & ~pauses)
        m.d.comb += [
            ends.eq(ends_batch & ~more_batches),
            pauses_then.eq(ends_batch & more_batches & pauses),
        ]
        m.d.sync += [
            self.running.eq(
                self.start | (self.paused & self.resume) | (self.running & ~(self.advance & stops))
            ),
            self.paused.eq((self.paused & ~self.resume) | (self.running & self.advance & pauses_then)),
            self.idle.eq(~self.start & (self.idle | (self.running & self.advance & ends))),
        ]
