"""Rows to AXI bursts: the splitter that both DMA units use."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..booth import carry_save
from ..config import Config
from ..constants import BURST_BEATS
from ..interfaces import COUNT_BITS, ERROR_BITS, LOCAL_ADDRESS_BITS, MEMORY_ADDRESS_BITS, SEMAPHORE_BITS
from ..isa import Error, Opcode, width

SPAN_BITS = width(Opcode.LOAD_GO, "row_bytes")
BEAT_BITS = exact_log2(BURST_BEATS)
"""Number of a beat in its burst."""


class SignalTokens(data.StructLayout):
    """What a SIGNAL gives: `count` tokens to `semaphore` of each of the `cores`."""

    def __init__(self, core_mask_bits: int):
        super().__init__(
            {
                "semaphore": unsigned(SEMAPHORE_BITS),
                "count": unsigned(COUNT_BITS),
                "cores": unsigned(core_mask_bits),
            }
        )


class Purpose(data.StructLayout):
    """The part of a transfer that all its bursts repeat."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "is_signal": 1,  # a SIGNAL, which follows the GOs before it; then only `tokens` counts
                "tokens": SignalTokens(config.core_mask_bits),
                "to_wm": 1,
                "to_decoder": 1,  # a LOAD_DECODE, of one row
                "streamed": 1,
                "packed": 1,  # each row is packed weights
                "checked": config.load_crc,  # beats enter the CRC
            }
        )


class Transfer(data.StructLayout):
    """A GO with its pitches, or a SIGNAL."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "purpose": Purpose(config),
                "illegal": unsigned(1),  # reported as ILLEGAL when its turn comes
                "memory_address": unsigned(MEMORY_ADDRESS_BITS),
                "local_address": unsigned(LOCAL_ADDRESS_BITS),
                "row_bytes": unsigned(SPAN_BITS),
                "rows": unsigned(width(Opcode.LOAD_GO, "rows")),
                "memory_pitch": unsigned(width(Opcode.LOAD_PITCH, "memory_pitch")),
                "local_pitch": unsigned(width(Opcode.LOAD_PITCH, "local_pitch")),
            }
        )


class Burst(data.StructLayout):
    """A burst of W-aligned beats, or a SIGNAL.

    Beat k carries memory bytes `address` + k*W + lane and goes to (comes from) local bytes `local_address` +
    k*W + lane, modulo the local addresses, where lanes below `first_lane` of the first beat and above `last_lane` of
    the last do not count.
    """

    def __init__(self, config: Config) -> None:
        lane_bits = exact_log2(config.word_bytes)
        super().__init__(
            {
                "purpose": Purpose(config),
                "ends_block": unsigned(1),  # the last burst of a LOAD_DECODE, or of a row of packed weights
                "address": unsigned(MEMORY_ADDRESS_BITS),
                "local_address": unsigned(LOCAL_ADDRESS_BITS),
                "last_beat": unsigned(BEAT_BITS),  # beats - 1
                "first_lane": unsigned(lane_bits),
                "last_lane": unsigned(lane_bits),
            }
        )


class BurstPart(data.StructLayout):
    """Some fields of a burst, for those who need no others."""

    def __init__(self, config: Config, *names: str) -> None:
        super().__init__({name: Burst(config)[name].shape for name in names})

    def of(self, burst: data.View) -> Value:
        """These fields of a burst."""
        return Cat(burst[name] for name in self.members)


def beats_of(burst: data.View) -> Value:
    """Beats of the burst."""
    return Cat(burst.last_beat, Const(0, 1)) + 1


def lanes_of(burst: data.View, is_first: Value, is_last: Value, word_bytes: int) -> Value:
    """Bit per lane: it counts in this beat of the burst, its first one, its last one, both or neither. Of `burst` only
    `first_lane` and `last_lane` are read."""
    all_lanes = Const((1 << word_bytes) - 1, word_bytes)
    return (all_lanes << Mux(is_first, burst.first_lane, 0)) & (
        all_lanes >> Mux(is_last, ~burst.last_lane, 0)
    )


class BurstSplitter(wiring.Component):
    """Splits the rows of GOs into INCR bursts of at most BURST_BEATS beats, one burst per cycle.

    A burst ends at a multiple of BURST_BEATS beats or at the end of its row. Transfers keep their order and follow
    each other without a gap. Row r starts at offset memory_address + r*memory_pitch, modulo 2**32, and must end at or
    before mem_size.

    Ports:
        transfers (stream of Transfer, in): GOs and SIGNALs.
        bursts (stream of Burst, out): from two cycles after the transfer on; `valid` may fall when `halt` rises.
        mem_base (MEMORY_ADDRESS_BITS, in): first byte of the window in external memory; stable while `busy`.
        mem_size (MEMORY_ADDRESS_BITS, in): bytes of the window, which ends at 2**32 or before; stable while `busy`.
        halt (1, in): nothing is taken or offered.
        error (1, out): a row is found to be wrong in this cycle; the user raises `halt` from the next cycle on.
        code (ERROR_BITS, out): MEMORY_RANGE: the row leaves the window. ILLEGAL: its transfer is, or the row is for WM
            or the decoder and is not made of whole aligned words.
        busy (1, out): a transfer is inside.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "transfers": In(stream.Signature(Transfer(config))),
                "bursts": Out(stream.Signature(Burst(config))),
                "mem_base": In(MEMORY_ADDRESS_BITS),
                "mem_size": In(MEMORY_ADDRESS_BITS),
                "halt": In(1),
                "error": Out(1),
                "code": Out(ERROR_BITS),
                "busy": Out(1),
            }
        )
        lane_bits = exact_log2(config.word_bytes)
        # Stage 1: a transfer; its addresses are those of the row that goes to stage 2 next.
        self.row = Signal(Transfer(config), reset_less=True)
        self.row_valid = Signal()
        self.row_is_last = Signal(reset_less=True)
        self.row_advances = Signal()
        self.row_moves = Signal()
        # Stage 2: a row; its address is that of the burst on offer.
        self.burst_valid = Signal()
        self.burst_is_last = Signal(reset_less=True)
        self.purpose = Signal(Purpose(config), reset_less=True)
        self.beat = Signal(MEMORY_ADDRESS_BITS - lane_bits, reset_less=True)
        self.beats_left = Signal(SPAN_BITS + 1 - lane_bits, reset_less=True)  # minus 1
        self.local_address = Signal(LOCAL_ADDRESS_BITS, reset_less=True)
        self.first_lane = Signal(lane_bits, reset_less=True)
        self.last_lane = Signal(lane_bits, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        start, end = Signal(MEMORY_ADDRESS_BITS), Signal(SPAN_BITS + 1)
        lane_bits = len(self.first_lane)
        m.d.comb += [
            start.eq(self.mem_base + self.row.memory_address),
            # Of the last byte. The first lane comes sooner than a sum over all of the row's bytes.
            end.eq(self.row.row_bytes + (start[:lane_bits] - 1)),
            self.busy.eq(self.row_valid | self.burst_valid),
        ]
        self._check_row(m, start[:lane_bits])
        self._take_rows(m)
        self._offer_burst(m)
        with m.If(self.row_advances):
            self._begin_row(m, start, end)
        with m.Elif(self.bursts.valid & self.bursts.ready):
            self._next_burst(m)
        return m

    def _check_row(self, m: Module, start_lane: Value) -> None:
        """A row goes to stage 2 unless it is wrong."""
        row, lane_bits = self.row, len(start_lane)
        misaligned, room = Signal(), Signal(MEMORY_ADDRESS_BITS + 2)
        # mem_size - memory_address - row_bytes, of which one carry runs: -x is ~x + 1.
        terms = (self.mem_size, ~Cat(row.memory_address, C(0, 2)), ~Cat(row.row_bytes, C(0, len(room))))
        total, carry = carry_save(m, [Cat(term, C(0, 2))[: len(room)] for term in terms])
        outside = room[-1]
        m.d.comb += [
            room.eq(total - ~(carry | 1)),
            misaligned.eq(
                start_lane.any() | row.local_address[:lane_bits].any() | row.row_bytes[:lane_bits].any()
            ),
        ]
        with m.If(self.row_advances):
            with m.If(row.purpose.is_signal):
                m.d.comb += self.row_moves.eq(1)
            with m.Elif(row.illegal | ((row.purpose.to_wm | row.purpose.to_decoder) & misaligned)):
                m.d.comb += [self.error.eq(1), self.code.eq(Error.ILLEGAL)]
            with m.Elif(outside):
                m.d.comb += [self.error.eq(1), self.code.eq(Error.MEMORY_RANGE)]
            with m.Else():
                m.d.comb += self.row_moves.eq(1)

    def _take_rows(self, m: Module) -> None:
        """Stage 1. A wrong row advances, too: the unit halts, so what follows it does not matter."""
        row, given = self.row, self.transfers.payload
        burst_free = Signal()
        m.d.comb += [
            burst_free.eq(~self.burst_valid | (self.bursts.ready & self.burst_is_last)),
            self.row_advances.eq(self.row_valid & burst_free & ~self.halt),
            # `row_is_last` is a register, so that `ready` comes early in its cycle.
            self.transfers.ready.eq((~self.row_valid | (burst_free & self.row_is_last)) & ~self.halt),
        ]
        # Whether there is a transfer comes late, and many registers take it.
        with m.If(self.transfers.ready):
            m.d.sync += [
                row.eq(given),
                self.row_valid.eq(self.transfers.valid),
                self.row_is_last.eq(given.purpose.is_signal | (given.rows == 1)),
            ]
        with m.Elif(self.row_advances):
            m.d.sync += [
                self.row_is_last.eq(row.rows == 2),
                row.rows.eq(row.rows - 1),
                row.memory_address.eq(row.memory_address + row.memory_pitch),
                row.local_address.eq(row.local_address + row.local_pitch),
            ]

    def _offer_burst(self, m: Module) -> None:
        """Stage 2: the burst ends with its row or at a multiple of BURST_BEATS."""
        burst, is_last, lane_bits = self.bursts.payload, self.burst_is_last, len(self.last_lane)
        m.d.comb += [
            self.bursts.valid.eq(self.burst_valid & ~self.halt),
            burst.purpose.eq(self.purpose),
            burst.ends_block.eq((self.purpose.to_decoder | self.purpose.packed) & is_last),
            burst.address.eq(Cat(Const(0, lane_bits), self.beat)),
            burst.local_address.eq(self.local_address),
            burst.last_beat.eq(Mux(is_last, self.beats_left, self._beats_to_boundary())),
            burst.first_lane.eq(self.first_lane),
            burst.last_lane.eq(self.last_lane | (~is_last).replicate(lane_bits)),
        ]

    def _beats_to_boundary(self) -> Value:
        """Beats from the burst's first one to the next multiple of BURST_BEATS, minus 1."""
        return ~self.beat[:BEAT_BITS]

    def _begin_row(self, m: Module, start: Value, end: Value) -> None:
        """The row's first burst is on offer from the next cycle on, unless the row is wrong: that comes late in the
        cycle, and many registers take the burst."""
        row, lane_bits = self.row, len(self.first_lane)
        m.d.sync += [
            self.burst_valid.eq(self.row_moves),
            self.purpose.eq(row.purpose),
            self.beat.eq(start[lane_bits:]),
            self.beats_left.eq(end[lane_bits:]),
            self.burst_is_last.eq(
                row.purpose.is_signal | (end[lane_bits:] <= ~start[lane_bits:][:BEAT_BITS])
            ),
            # Where lane 0 of the first beat would go; the mask drops the lanes in front of the row.
            self.local_address.eq(row.local_address - start[:lane_bits]),
            self.first_lane.eq(start[:lane_bits]),
            self.last_lane.eq(end[:lane_bits]),
        ]

    def _next_burst(self, m: Module) -> None:
        """The row's next burst is on offer from the next cycle on; it begins at a multiple of BURST_BEATS."""
        left, to_boundary = Signal.like(self.beats_left), self._beats_to_boundary()
        m.d.comb += left.eq(self.beats_left - to_boundary - 1)
        m.d.sync += [
            self.burst_valid.eq(~self.burst_is_last),
            self.beat.eq(Cat(Const(0, BEAT_BITS), self.beat[BEAT_BITS:] + 1)),
            self.beats_left.eq(left),
            self.burst_is_last.eq(left[BEAT_BITS:] == 0),
            self.local_address.eq(self.local_address + Cat(Const(0, len(self.first_lane)), to_boundary + 1)),
            self.first_lane.eq(0),
        ]
