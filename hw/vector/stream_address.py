"""The address generator of one memory stream: six nested dimensions and an offset, additions only."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..isa import STREAM_DIMS, Element, Opcode, layout, width
from ..one_hot import any_of, only_if

TURN_BITS = width(Opcode.VECTOR_DIMS, "count_low")
ADDRESS_BITS = width(Opcode.VECTOR_STREAM, "address")


class StreamAddress(wiring.Component):
    """Walks `address = start + sum(index_d * stride_d) + offset`, dimension 0 fastest, and starts over after the last
    turn. The walk is one step ahead of `address`, so that the offset's addition has a cycle of its own.

    Configuration, held until replaced; dimensions have one turn after reset:
        set_stream (1, in), stream (VECTOR_STREAM, in): a VECTOR_STREAM, taken if it is for this `number`.
        set_dims (1, in), dims (VECTOR_DIMS, in): a VECTOR_DIMS, taken if it is for this `number`.
        element (Element, out), splat (1, out), indexed (1, out): as configured.

    Walk:
        restart (1, in): from the second cycle after on `address` is the one of index 0 in every dimension; wins over
            `step` and keeps `address`. It may last; what is configured meanwhile counts if one more cycle of it
            follows.
        step (1, in): from the next cycle on `address` is the next one. Not in the cycle after a `restart`.
        next_word (1, in): from the next cycle on `address` is a word further, until the next `step`. Not with one.
        address (ADDRESS_BITS, out): the address.
        last (1, out): dimension 0 is at its last turn.

    Offset:
        last_turn (TURN_BITS, out): number of the last turn of dimension 1, as configured.
        next_offset (1, out): from the next cycle on `offset` must be that of the next turn of dimension 1, after the
            last turn that of the first.
        offset (ADDRESS_BITS, in): added to the address. In the cycle after a `restart` it must be that of turn 0.
    """

    def __init__(self, number: int, word_bytes: int):
        self.number, self.word_bytes = number, word_bytes
        super().__init__(
            {
                "set_stream": In(1),
                "stream": In(layout(Opcode.VECTOR_STREAM)),
                "set_dims": In(1),
                "dims": In(layout(Opcode.VECTOR_DIMS)),
                "element": Out(Element),
                "splat": Out(1),
                "indexed": Out(1),
                "restart": In(1),
                "step": In(1),
                "next_word": In(1),
                "address": Out(ADDRESS_BITS),
                "last": Out(1),
                "last_turn": Out(TURN_BITS),
                "next_offset": Out(1),
                "offset": In(ADDRESS_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        start = Signal(ADDRESS_BITS)
        # Turns left after the current one, and whether there are any.
        turns = [Signal(TURN_BITS, name=f"turns_{d}") for d in range(STREAM_DIMS)]
        several = [Signal(name=f"several_{d}") for d in range(STREAM_DIMS)]
        strides = [Signal(ADDRESS_BITS, name=f"stride_{d}") for d in range(STREAM_DIMS)]
        left = [Signal(TURN_BITS, name=f"left_{d}") for d in range(STREAM_DIMS)]
        more = [Signal(name=f"more_{d}") for d in range(STREAM_DIMS)]
        # Address with index 0 in every dimension below d; that of dimension 0 is the address one step ahead.
        bases = [Signal(ADDRESS_BITS, name=f"base_{d}") for d in range(STREAM_DIMS)]

        with m.If(self.set_stream & (self.stream.stream == self.number)):
            m.d.sync += [
                start.eq(self.stream.address),
                self.element.eq(self.stream.element),
                self.splat.eq(self.stream.splat),
                self.indexed.eq(self.stream.indexed),
            ]
        dims, turns_low, turns_high = self.dims, Signal(TURN_BITS), Signal(TURN_BITS)
        m.d.comb += [turns_low.eq(dims.count_low - 1), turns_high.eq(dims.count_high - 1)]
        with m.If(self.set_dims & (dims.stream == self.number)):
            for pair in range(STREAM_DIMS // 2):
                low, high = 2 * pair, 2 * pair + 1
                with m.If(dims.pair == pair):
                    m.d.sync += [
                        turns[low].eq(turns_low),
                        turns[high].eq(turns_high),
                        several[low].eq(turns_low != 0),
                        several[high].eq(turns_high != 0),
                        strides[low].eq(dims.stride_low),
                        strides[high].eq(dims.stride_high),
                    ]

        restarted = Signal()
        m.d.sync += restarted.eq(self.restart)
        advance = Signal()
        m.d.comb += [
            advance.eq((self.step | restarted) & ~self.restart),
            self.last_turn.eq(turns[1]),
            self.next_offset.eq(advance & ~more[0]),
        ]
        with m.If(advance):
            m.d.sync += [self.address.eq(bases[0] + self.offset), self.last.eq(~more[0])]
        with m.Elif(self.next_word):
            word = self.address[exact_log2(self.word_bytes) :]
            m.d.sync += word.eq(word + 1)

        # The lowest dimension with turns left moves on; those below it begin again at its new address. When there is
        # none, all begin again at the start. So one sum of a base and a stride does for all dimensions.
        moves, ended = [Signal(name=f"moves_{d}") for d in range(STREAM_DIMS)], Signal()
        for d in range(STREAM_DIMS):
            m.d.comb += moves[d].eq(more[d] & ~Cat(more[:d]).any() & ~self.restart)
        m.d.comb += ended.eq(self.restart | ~Cat(more).any())
        base, stride, following = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        m.d.comb += [
            base.eq(any_of(map(only_if, [*moves, ended], [*bases, start]))),
            stride.eq(any_of(map(only_if, moves, strides))),
            following.eq(base + stride),
        ]
        for d in range(STREAM_DIMS):
            over = self.restart | (advance & ~Cat(more[:d]).any() & ~more[d])
            with m.If(self.restart | (advance & ~Cat(more[:d]).any())):
                m.d.sync += bases[d].eq(following)
            with m.If(over):
                m.d.sync += [left[d].eq(turns[d]), more[d].eq(several[d])]
            with m.Elif(advance & moves[d]):
                m.d.sync += [left[d].eq(left[d] - 1), more[d].eq(left[d] != 1)]
        return m
