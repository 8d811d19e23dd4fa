"""Addresses of one memory stream: six nested dimensions and an offset, additions only."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..isa import STREAM_DIMS


class StreamAddress(wiring.Component):
    """Walks `address = start + sum(index_d * stride_d) + offset`, dimension 0 fastest, and starts over after the last
    turn.

    The walk is one step ahead of `address`, so that the offset's addition has a cycle of its own.

    Configuration (held until replaced):
    - `set_start`: `start` is the address of the first vector (bytes).
    - `set_dims`: the dimensions 2*`pair` and 2*`pair` + 1 get `count_low`, `stride_low` and `count_high`,
      `stride_high`; counts are at least 1, strides in bytes. All counts are 1 after reset.

    Walk:
    - `restart`: from the second cycle after on `address` is the one of index 0 in every dimension; wins over `step`.
      Not in the same cycle as a configuration.
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
    count_low: In(16)
    stride_low: In(signed(24))
    count_high: In(16)
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
        # Turns left after the current one.
        turns = [Signal(16, name=f"turns_{d}") for d in range(STREAM_DIMS)]
        strides = [Signal(24, name=f"stride_{d}") for d in range(STREAM_DIMS)]
        left = [Signal(16, name=f"left_{d}") for d in range(STREAM_DIMS)]
        # Address with index 0 in every dimension below d; that of dimension 0 is the address one step ahead.
        bases = [Signal(24, name=f"base_{d}") for d in range(STREAM_DIMS)]

        with m.If(self.set_start):
            m.d.sync += start.eq(self.start)
        with m.If(self.set_dims):
            for pair in range(STREAM_DIMS // 2):
                with m.If(self.pair == pair):
                    m.d.sync += [
                        turns[2 * pair].eq(self.count_low - 1),
                        turns[2 * pair + 1].eq(self.count_high - 1),
                        strides[2 * pair].eq(self.stride_low),
                        strides[2 * pair + 1].eq(self.stride_high),
                    ]

        restarted = Signal()
        m.d.sync += restarted.eq(self.restart)
        advance = Signal()
        m.d.comb += [
            advance.eq((self.step | restarted) & ~self.restart),
            self.last_turn.eq(turns[1]),
            self.next_offset.eq(advance & (left[0] == 0)),
        ]
        with m.If(advance):
            m.d.sync += [self.address.eq(bases[0] + self.offset), self.last.eq(left[0] == 0)]

        with m.If(self.restart):
            m.d.sync += [base.eq(start) for base in bases]
            m.d.sync += [left[d].eq(turns[d]) for d in range(STREAM_DIMS)]
        with m.Elif(advance):
            # The lowest dimension with turns left goes on; those below it begin again at its new address.
            moving = Signal(range(STREAM_DIMS + 1))
            m.d.comb += moving.eq(STREAM_DIMS)
            for d in reversed(range(STREAM_DIMS)):
                with m.If(left[d] != 0):
                    m.d.comb += moving.eq(d)
            following = Signal(24)
            over = moving == STREAM_DIMS
            m.d.comb += following.eq(Mux(over, start, Array(bases)[moving] + Array(strides)[moving]))
            for d in range(STREAM_DIMS):
                with m.If(moving == d):
                    m.d.sync += left[d].eq(left[d] - 1)
                with m.Elif(moving > d):
                    m.d.sync += left[d].eq(turns[d])
                with m.If(moving >= d):
                    m.d.sync += bases[d].eq(following)
        return m


__all__ = ["StreamAddress"]
