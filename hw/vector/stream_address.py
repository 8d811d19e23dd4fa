"""Addresses of one memory stream: six nested dimensions and an offset, additions only."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import STREAM_DIMS
from ..one_hot import any_of, only_if


class StreamAddress(wiring.Component):
    """Walks `address = start + sum(index_d * stride_d) + offset`, dimension 0 fastest, and starts over after the last
    turn.

    The walk is one step ahead of `address`, so that the offset's addition has a cycle of its own.

    Configuration (held until replaced):
    - `set_start`: `start` is the address of the first vector (bytes).
    - `set_dims`: the dimensions 2*`pair` and 2*`pair` + 1 get `turns_low`, `stride_low` and `turns_high`,
      `stride_high`: turns after the first one, strides in bytes. No dimension has any after reset.

    Walk:
    - `restart`: from the second cycle after on `address` is the one of index 0 in every dimension; wins over `step`
      and keeps `address`. It may last; what is configured meanwhile counts if one more cycle of it follows.
    - `step`: from the next cycle on `address` is the next one. Not in the cycle after a `restart`.
    - `last`: dimension 0 is at its last turn.

    Offset:
    - `last_turn`: the last turn of dimension 1, as configured.
    - `next_offset`: from the next cycle on `offset` must be that of the next turn of dimension 1, after the last turn
      that of the first. In the cycle after a `restart` it must be that of turn 0.
    """

    set_start: In(1)
    start: In(24)
    set_dims: In(1)
    pair: In(2)
    turns_low: In(16)
    stride_low: In(signed(24))
    turns_high: In(16)
    stride_high: In(signed(24))
    restart: In(1)
    step: In(1)
    address: Out(24)
    last: Out(1)
    last_turn: Out(16)
    next_offset: Out(1)
    offset: In(24)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        start = Signal(24)
        # Turns left after the current one, and whether there are any.
        turns = [Signal(16, name=f"turns_{d}") for d in range(STREAM_DIMS)]
        several = [Signal(name=f"several_{d}") for d in range(STREAM_DIMS)]
        strides = [Signal(24, name=f"stride_{d}") for d in range(STREAM_DIMS)]
        left = [Signal(16, name=f"left_{d}") for d in range(STREAM_DIMS)]
        more = [Signal(name=f"more_{d}") for d in range(STREAM_DIMS)]
        # Address with index 0 in every dimension below d; that of dimension 0 is the address one step ahead.
        bases = [Signal(24, name=f"base_{d}") for d in range(STREAM_DIMS)]

        with m.If(self.set_start):
            m.d.sync += start.eq(self.start)
        with m.If(self.set_dims):
            for pair in range(STREAM_DIMS // 2):
                low, high = 2 * pair, 2 * pair + 1
                with m.If(self.pair == pair):
                    m.d.sync += [
                        turns[low].eq(self.turns_low),
                        turns[high].eq(self.turns_high),
                        several[low].eq(self.turns_low != 0),
                        several[high].eq(self.turns_high != 0),
                        strides[low].eq(self.stride_low),
                        strides[high].eq(self.stride_high),
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

        # The lowest dimension with turns left moves on; those below it begin again at its new address. When there is
        # none, all begin again at the start: the sum of one source and one stride, or none.
        moves, ended = [Signal(name=f"moves_{d}") for d in range(STREAM_DIMS)], Signal()
        for d in range(STREAM_DIMS):
            m.d.comb += moves[d].eq(more[d] & ~Cat(more[:d]).any() & ~self.restart)
        m.d.comb += ended.eq(self.restart | ~Cat(more).any())
        base, stride, following = Signal(24), Signal(24), Signal(24)
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


__all__ = ["StreamAddress"]
