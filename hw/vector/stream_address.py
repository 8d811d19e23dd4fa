"""The address generator of one memory stream: six nested dimensions and an offset, additions only."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..isa import STREAM_DIMS, Element, Opcode, layout, width
from ..memory.words import NO_COLLISION_LOGIC
from ..one_hot import any_of, only_if

TURN_BITS = width(Opcode.VECTOR_DIMS, "count_low")
ADDRESS_BITS = width(Opcode.VECTOR_STREAM, "address")
_Extent = data.StructLayout({"turns": TURN_BITS, "stride": ADDRESS_BITS})
"""A dimension as configured: the turns after the first one, and how much each adds to the address."""
_Progress = data.StructLayout({"left": TURN_BITS, "base": ADDRESS_BITS})
"""A dimension when it moved last: the turns left, and the address with index 0 in every dimension below."""


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
        start, base, advance, restarted = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS), Signal(), Signal()
        # A bit per dimension: it has several turns, and other than two; it has some left, and other than one; it moves
        # on with the next step.
        several, not_two = Signal(STREAM_DIMS), Signal(STREAM_DIMS)
        more, not_one, moves = Signal(STREAM_DIMS), Signal(STREAM_DIMS), Signal(STREAM_DIMS)
        with m.If(self.set_stream & (self.stream.stream == self.number)):
            m.d.sync += [
                start.eq(self.stream.address),
                self.element.eq(self.stream.element),
                self.splat.eq(self.stream.splat),
                self.indexed.eq(self.stream.indexed),
            ]
        m.d.sync += restarted.eq(self.restart)
        m.d.comb += [
            advance.eq((self.step | restarted) & ~self.restart),
            self.next_offset.eq(advance & ~more[0]),
        ]
        with m.If(advance):
            m.d.sync += [self.address.eq(base + self.offset), self.last.eq(~more[0])]
        with m.Elif(self.next_word):
            word = self.address[exact_log2(self.word_bytes) :]
            m.d.sync += word.eq(word + 1)

        # The lowest dimension with turns left moves on; those below it begin again at its new address. When there is
        # none, all begin again at the start. So one dimension at most is read and written in a step: but for flags,
        # they are kept in memories. `base` is that of dimension 0: the address one step ahead. `restart` comes late, so
        # nothing of the memories, no sum and no choice of a dimension depends on it.
        begins, more_then = Signal(), Signal(STREAM_DIMS)
        m.d.comb += begins.eq(self.restart | ~moves.any())
        extent = self._extent(m, several, not_two, moves)
        following, left = Signal(ADDRESS_BITS), Signal(TURN_BITS)
        own_base, from_start = self._progress(m, moves, begins, advance, (extent, following, left))
        m.d.comb += following.eq(
            any_of(
                [
                    only_if(moves[0], base),
                    only_if(moves[1:].any() & ~from_start, own_base),
                    only_if(~moves.any() | (moves[1:].any() & from_start), start),
                ]
            )
            + only_if(moves.any(), extent.stride)
        )
        for d in range(STREAM_DIMS):
            again = ~moves.any() | moves[d + 1 :].any()
            m.d.comb += more_then[d].eq(Mux(again, several[d], Mux(moves[d], not_one[d], more[d])))
            with m.If(self.restart | advance):
                with m.If(self.restart | again):
                    m.d.sync += not_one[d].eq(not_two[d])
                with m.Elif(moves[d]):
                    m.d.sync += not_one[d].eq(left != 2)
        with m.If(self.restart | advance):
            m.d.sync += [
                base.eq(Mux(self.restart, start, following)),
                more.eq(Mux(self.restart, several, more_then)),
                moves.eq(Mux(self.restart, _lowest(several), _lowest(more_then))),
            ]
        return m

    def _extent(self, m: Module, several: Signal, not_two: Signal, moves: Signal) -> data.View:
        """Takes VECTOR_DIMS, a pair of dimensions in two memories; that of the dimension that moves."""
        dims, halves = self.dims, []
        pair = Signal(range(STREAM_DIMS // 2))
        m.d.comb += pair.eq(any_of(only_if(moves[d], C(d // 2, len(pair))) for d in range(STREAM_DIMS)))
        here = self.set_dims & (dims.stream == self.number)
        for half, count, stride in (
            ("low", dims.count_low, dims.stride_low),
            ("high", dims.count_high, dims.stride_high),
        ):
            turns = Signal(TURN_BITS, name=f"turns_{half}")
            m.submodules[f"extents_{half}"] = memory = Memory(
                shape=_Extent, depth=STREAM_DIMS // 2, init=[], attrs=NO_COLLISION_LOGIC
            )
            read, write = memory.read_port(domain="comb"), memory.write_port()
            m.d.comb += [
                turns.eq(count - 1),
                write.en.eq(here),
                write.addr.eq(dims.pair),
                write.data.turns.eq(turns),
                write.data.stride.eq(stride),
                read.addr.eq(pair),
            ]
            halves.append(read.data)
            for number in range(STREAM_DIMS // 2):
                with m.If(here & (dims.pair == number)):
                    place = 2 * number + (half == "high")
                    m.d.sync += [several[place].eq(count != 1), not_two[place].eq(count != 2)]
        with m.If(here & (dims.pair == 0)):
            m.d.sync += self.last_turn.eq(dims.count_high - 1)
        extent = Signal(_Extent)
        m.d.comb += extent.eq(Mux(moves[1::2].any(), halves[1], halves[0]))
        return extent

    def _progress(
        self,
        m: Module,
        moves: Signal,
        begins: Signal,
        advance: Signal,
        moving: tuple[data.View, Signal, Signal],
    ) -> tuple[Value, Value]:
        """(base, it is the start) of the dimension that moves, but for dimension 0. `moving`: its extent, its next
        base, and the turns that it has left, which are set here.

        A dimension that has begun again has its base where the one that moved has it: `owner` names this one, or 0 for
        the start. What is left of its turns is all of them, while it is `fresh`."""
        numbers = range(STREAM_DIMS)
        m.submodules.progress = memory = Memory(
            shape=_Progress, depth=STREAM_DIMS, init=[], attrs=NO_COLLISION_LOGIC
        )
        left_read, base_read, write = (
            memory.read_port(domain="comb"),
            memory.read_port(domain="comb"),
            memory.write_port(),
        )
        (extent, following, left), fresh = moving, Signal(STREAM_DIMS)
        owners = [Signal(numbers, name=f"owner_{d}") for d in numbers]
        index, owner = Signal(numbers), Signal(numbers)
        m.d.comb += [
            index.eq(any_of(only_if(moves[d], C(d, len(index))) for d in numbers)),
            owner.eq(any_of(only_if(moves[d], owners[d]) for d in numbers[1:])),
            left_read.addr.eq(index),
            base_read.addr.eq(owner),
            left.eq(Mux((fresh & moves).any(), extent.turns, left_read.data.left)),
            write.en.eq(advance & moves.any()),
            write.addr.eq(index),
            write.data.left.eq(left - 1),
            write.data.base.eq(following),
        ]
        with m.If(self.restart | advance):
            for d in numbers:
                with m.If(begins | moves[d + 1 :].any()):
                    m.d.sync += fresh[d].eq(1)
                with m.Elif(moves[d]):
                    m.d.sync += fresh[d].eq(0)
                with m.If(begins):
                    m.d.sync += owners[d].eq(0)
                with m.Elif(moves[d:].any()):
                    m.d.sync += owners[d].eq(index)
        return base_read.data.base, owner == 0


def _lowest(dimensions: Value) -> Value:
    """The first of these bits that is 1, alone."""
    return Cat(dimensions[d] & ~dimensions[:d].any() for d in range(len(dimensions)))
