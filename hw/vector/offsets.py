"""Offsets of the indexed stream."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..isa import OFFSETS_MAX, Opcode, width
from ..memory.words import NO_COLLISION_LOGIC

OFFSET_BITS = width(Opcode.VECTOR_STREAM, "address")


class Offsets(wiring.Component):
    """`OFFSETS_MAX` offsets, written a memory word (W/4 of them, 32 bits each, of which OFFSET_BITS count) at a time.
    The memory is read one offset ahead: its word is chosen from in the cycle before `offset` takes it.

    Ports:
        write (1, in): store `word` at `word_address`.
        word_address (0..words-1, in), word (8 W, in): what to store where.
        last_turn (0..OFFSETS_MAX-1, in): number of a round's last offset; after it comes number 0 again. Holds while
            `idle`.
        idle (1, in): a round may begin in the next cycle: `offset` is number 0 then. Not in the cycle of a `write`.
        step (1, in): from the next cycle on `offset` is the next one. Not while `idle`.
        offset (OFFSET_BITS, out): the current offset.
    """

    def __init__(self, config: Config):
        self.entries = config.columns // 4
        self.words = OFFSETS_MAX // self.entries
        super().__init__(
            {
                "write": In(1),
                "word_address": In(range(self.words)),
                "word": In(8 * config.columns),
                "last_turn": In(range(OFFSETS_MAX)),
                "idle": In(1),
                "step": In(1),
                "offset": Out(OFFSET_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = OFFSET_BITS * self.entries
        m.submodules.memory = memory = Memory(
            shape=width, depth=self.words, init=[], attrs=NO_COLLISION_LOGIC
        )
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(self.word_address),
            *(
                write.data[OFFSET_BITS * i :][:OFFSET_BITS].eq(self.word[32 * i :][:OFFSET_BITS])
                for i in range(self.entries)
            ),
        ]
        first = Signal(OFFSET_BITS, reset_less=True)
        with m.If(self.write & (self.word_address == 0)):
            m.d.sync += first.eq(self.word[:OFFSET_BITS])

        # The number of the offset that the memory gives, and the one that follows it.
        ahead = Signal(range(OFFSETS_MAX))
        following = Signal.like(ahead)
        place_bits = (self.entries - 1).bit_length()
        place = Signal(range(max(self.entries, 2)))
        m.d.comb += [
            # `idle` comes late: what follows 0 is not made of it.
            following.eq(Mux(self.idle, self.last_turn != 0, Mux(ahead == self.last_turn, 0, ahead + 1))),
            read.en.eq(self.idle | self.step),
            read.addr.eq(following[place_bits:]),
        ]
        given = Signal(OFFSET_BITS)
        with m.Switch(place):
            for i in range(self.entries):
                with m.Case(i):
                    m.d.comb += given.eq(read.data[OFFSET_BITS * i :][:OFFSET_BITS])
        with m.If(read.en):
            m.d.sync += [
                ahead.eq(following),
                place.eq(following[:place_bits]),
                self.offset.eq(Mux(self.idle, first, given)),
            ]
        return m
