"""The beats of a slot: a micro-op that loads or stores wide elements is issued once per word of its widest ones, and
every micro-op at least once per column of a lane."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import STORE_STREAM, Element, Opcode
from ..layouts import shapes
from ..one_hot import any_of, one_of, only_if
from .layouts import IssueFields, stream_of

LOG2_BYTES = max(element.bytes for element in Element).bit_length() - 1
"""Base-2 logarithm of the bytes of the widest element."""
StreamSizes = data.ArrayLayout(range(LOG2_BYTES + 1), STORE_STREAM + 1)
"""log2 of the bytes of each stream's elements; 0 where element 0 goes to all lanes."""

Group = data.StructLayout({"position": LOG2_BYTES, "known": LOG2_BYTES})
"""A group of lanes: those whose number begins with the bits of `position` that are `known`, the top ones first. With
none known it is all lanes, with one a half of them, and so on."""


def log2_bytes(element: Value) -> Value:
    """log2 of the bytes of an element."""
    return Cat(
        one_of(element, *(member for member in Element if (member.bytes.bit_length() - 1) >> bit & 1))
        for bit in range(LOG2_BYTES.bit_length())
    )


def group_of(number: Value, log2: Value) -> tuple[Value, Value]:
    """(`position`, `known`) of group `number` of 2**log2 groups."""
    positions = Array(number << LOG2_BYTES - known for known in range(LOG2_BYTES + 1))
    knowns = Array((1 << LOG2_BYTES) - (1 << LOG2_BYTES - known) for known in range(LOG2_BYTES + 1))
    return positions[log2], knowns[log2]


def members(group: data.View, lanes: int) -> Value:
    """A bit per lane: it is in the group."""
    bits = (lanes - 1).bit_length()
    tops = (i << LOG2_BYTES >> bits for i in range(lanes))
    return Cat(((group.position ^ top) & group.known) == 0 for top in tops)


class Beats(wiring.Component):
    """Counts the beats of the slot to be issued. The 2**n groups of lanes are as many as the widest element has bytes,
    and at least as many as a lane has columns.

    Ports:
        configure (1, in), lanes (VECTOR_GO.lanes, in): a GO begins; at least two cycles before its first slot. Groups
            beyond these lanes have no beat.
        sizes (StreamSizes, in): the streams'.
        fields (IssueFields, in): the micro-op.
        issue (1, in): a beat is issued.
        first (1, out), more (1, out): the beat is the slot's first one; another one follows.
        next_word (1, out): the load stream's next word belongs to the next beat.
        group (Group, out): the beat's lanes.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "configure": In(1),
                **{name: In(shape) for name, shape in shapes(Opcode.VECTOR_GO, "lanes").items()},
                "sizes": In(StreamSizes),
                "fields": In(IssueFields),
                "issue": In(1),
                "first": Out(1),
                "more": Out(1),
                "next_word": Out(1),
                "group": Out(Group),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = (self.config.columns - 1).bit_length()
        fields, sizes, store = self.fields, self.sizes, self.sizes[STORE_STREAM]
        number, before = Signal(LOG2_BYTES), Signal(len(self.lanes))
        m.d.comb += before.eq(self.lanes - 1)
        # The last group of the GO's lanes, by the number of groups.
        last = [Signal(log2, name=f"last_of_{1 << log2}") for log2 in range(LOG2_BYTES + 1)]
        with m.If(self.configure):
            for log2 in range(1, LOG2_BYTES + 1):
                group = before >> max(lane_bits - log2, 0)
                m.d.sync += last[log2].eq(Mux(before >= self.config.columns, -1, group))
        # The words of narrower loads serve several beats; those of which the last bits of the number are ones are last.
        ends, low = [], Array(number[:bits].all() for bits in range(LOG2_BYTES + 1))
        least = exact_log2(self.config.lane_columns)
        for stream in range(STORE_STREAM):
            size, end = sizes[stream], Signal(name=f"end_{stream}")
            gap, load_gap = Signal(range(LOG2_BYTES + 1)), Signal(range(least + 1))
            stored = Mux(store > least, store, least)
            m.d.comb += [
                gap.eq(Mux(stored > size, stored - size, 0)),
                load_gap.eq(Mux(size < least, least - size, 0)),
                end.eq(Mux(fields.store, low[gap], low[load_gap])),
            ]
            ends.append(end)
        log2 = Signal(range(LOG2_BYTES + 1))
        # Whether another beat follows, for each stream, in registers: which stream it is comes late, from the program's
        # read, and much depends on it.
        follows_of = [
            self._follows(m, number, Array(last)[sizes[stream]], f"stream_{stream}")
            for stream in range(STORE_STREAM + 1)
        ]
        load_size = any_of(only_if(fields.loads[stream], sizes[stream]) for stream in range(STORE_STREAM))
        store_size = Mux(fields.store & (store > least), store, least)
        position, known = group_of(number, log2)
        m.d.comb += [
            self.first.eq(number == 0),
            self.more.eq(
                (fields.loads & Cat(follows_of[:STORE_STREAM])).any()
                | (fields.store & follows_of[STORE_STREAM])
                | (self._follows(m, number, last[least], "lanes") if least else 0)
            ),
            self.next_word.eq(self.more & Array(ends)[stream_of(fields.loads)]),
            log2.eq(Mux(store_size > load_size, store_size, load_size)),
            self.group.position.eq(position),
            self.group.known.eq(known),
        ]
        with m.If(self.issue):
            m.d.sync += number.eq(Mux(self.more, number + 1, 0))
        return m

    def _follows(self, m: Module, number: Signal, last: Value, name: str) -> Signal:
        """Whether a beat follows the one of this number, the last one being `last`: what it will be is known each way
        before it is known whether a beat is issued, and whether another one follows."""
        follows, following = Signal(name=f"follows_of_{name}"), Signal(name=f"following_of_{name}")
        m.d.comb += following.eq(Mux(self.more, number + 1 < last, last.any()))
        m.d.sync += follows.eq(Mux(self.issue, following, number < last))
        return follows
