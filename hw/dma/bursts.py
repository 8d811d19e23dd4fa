"""Rows to AXI bursts: the splitter both DMA units share."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..isa import Error

BURST_BEATS = 32
"""Longest burst. Bursts do not cross a multiple of BURST_BEATS beats, hence no 4 KiB boundary."""


def check_config(config: Config) -> None:
    """ValueError unless a block of BURST_BEATS beats divides 4 KiB."""
    if BURST_BEATS * config.word_bytes > 4096:
        raise ValueError(
            f"columns must be at most {4096 // BURST_BEATS} for the bursts' sake, not {config.columns}"
        )


class Job(data.StructLayout):
    """A GO with its pitches, or a SIGNAL on its way past the GOs before it."""

    def __init__(self) -> None:
        super().__init__(
            {
                "is_signal": unsigned(1),
                "illegal": unsigned(1),  # reported as ILLEGAL when its turn comes
                "semaphore": unsigned(4),
                "signal_count": unsigned(8),
                "to_wm": unsigned(1),
                "to_decoder": unsigned(1),  # a LOAD_DECODE, of one row
                "streamed": unsigned(1),
                "memory_address": unsigned(32),
                "local_address": unsigned(24),
                "span": unsigned(24),  # row_bytes - 1
                "rows": unsigned(16),
                "memory_pitch": unsigned(32),
                "local_pitch": unsigned(24),
            }
        )


class Burst(data.StructLayout):
    """A burst of W-aligned beats, or a SIGNAL.

    Beat k carries memory bytes `address` + k*W + lane and goes to (comes from) local bytes `local_address` +
    k*W + lane, modulo 2**24, where lanes below `first_lane` of the first beat and above `last_lane` of the
    last do not count.
    """

    def __init__(self, config: Config) -> None:
        lane_bits = exact_log2(config.word_bytes)
        super().__init__(
            {
                "is_signal": unsigned(1),
                "semaphore": unsigned(4),
                "signal_count": unsigned(8),
                "to_wm": unsigned(1),
                "to_decoder": unsigned(1),
                "ends_block": unsigned(1),  # the last burst of a LOAD_DECODE
                "streamed": unsigned(1),
                "address": unsigned(32),
                "local_address": unsigned(24),
                "last_beat": unsigned(exact_log2(BURST_BEATS)),  # beats - 1
                "first_lane": unsigned(lane_bits),
                "last_lane": unsigned(lane_bits),
            }
        )


class BurstSplitter(wiring.Component):
    """Splits the rows of GOs into INCR bursts of at most BURST_BEATS beats, one burst per cycle.

    A burst ends at a multiple of BURST_BEATS beats or at the end of its row. Jobs keep their order and follow
    each other without a gap; the first burst of a job is offered two cycles after the job was taken.

    Ports:
        `jobs`: GOs and SIGNALs.
        `bursts`: what becomes of them. `valid` may fall when `halt` rises.
        `mem_base`, `mem_size`: the window in external memory, stable while `busy`; at most 2**32 in all.
        `halt`: nothing is taken or offered.
        `error`, `code`: high in the cycle in which a row is found to leave the window (MEMORY_RANGE) or a job
            to be illegal (ILLEGAL; also a row for WM or the decoder that is not whole aligned words). The user raises
            `halt` from the next cycle on.
        `busy`: a job is inside.

    Row r starts at offset memory_address + r*memory_pitch modulo 2**32 and must end at or before mem_size.
    """

    def __init__(self, config: Config):
        check_config(config)
        self.config = config
        super().__init__(
            {
                "jobs": In(stream.Signature(Job())),
                "bursts": Out(stream.Signature(Burst(config))),
                "mem_base": In(32),
                "mem_size": In(32),
                "halt": In(1),
                "error": Out(1),
                "code": Out(4),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane_bits = exact_log2(self.config.word_bytes)
        beat_bits = exact_log2(BURST_BEATS)

        # Stage 1: a job; its addresses are those of the row that goes to stage 2 next.
        row = Signal(Job(), reset_less=True)
        row_valid = Signal()
        row_moves = Signal()
        row_advances = Signal()
        row_is_last = Signal(
            reset_less=True
        )  # in a register, so that what is to come is taken early in a cycle
        # Stage 2: a row; its address is that of the burst on offer.
        burst_valid = Signal()
        to_wm, to_decoder, streamed = (
            Signal(reset_less=True, name=n) for n in ("to_wm", "to_decoder", "streamed")
        )
        signal = Signal(13, reset_less=True)  # is_signal, semaphore, signal_count
        beat = Signal(32 - lane_bits, reset_less=True)
        beats_left = Signal(25 - lane_bits, reset_less=True)  # minus 1
        local_address = Signal(24, reset_less=True)
        first_lane = Signal(lane_bits, reset_less=True)
        last_lane = Signal(lane_bits, reset_less=True)
        burst_moves = Signal()
        burst_free = Signal()
        burst_is_last = Signal(reset_less=True)  # likewise

        start = Signal(32)
        end = Signal(25)
        misaligned = Signal()
        outside = Signal()
        m.d.comb += [
            start.eq(self.mem_base + row.memory_address),
            end.eq(start[:lane_bits] + row.span),
            outside.eq((row.memory_address + row.span) >= self.mem_size),
            misaligned.eq(
                start[:lane_bits].any() | row.local_address[:lane_bits].any() | ~row.span[:lane_bits].all()
            ),
            # A row that is wrong goes on, too: the unit halts, and what becomes of it does not matter.
            burst_free.eq(~burst_valid | (self.bursts.ready & burst_is_last)),
            row_advances.eq(row_valid & burst_free & ~self.halt),
            self.jobs.ready.eq((~row_valid | (burst_free & row_is_last)) & ~self.halt),
            self.busy.eq(row_valid | burst_valid),
        ]
        with m.If(row_advances):
            with m.If(row.is_signal):
                m.d.comb += row_moves.eq(1)
            with m.Elif(row.illegal | ((row.to_wm | row.to_decoder) & misaligned)):
                m.d.comb += [self.error.eq(1), self.code.eq(Error.ILLEGAL)]
            with m.Elif(outside):
                m.d.comb += [self.error.eq(1), self.code.eq(Error.MEMORY_RANGE)]
            with m.Else():
                m.d.comb += row_moves.eq(1)

        with m.If(self.jobs.valid & self.jobs.ready):
            m.d.sync += [
                row.eq(self.jobs.payload),
                row_valid.eq(1),
                row_is_last.eq(self.jobs.payload.is_signal | (self.jobs.payload.rows == 1)),
            ]
        with m.Elif(row_advances):
            m.d.sync += [
                row_valid.eq(~row_is_last),
                row_is_last.eq(row.rows == 2),
                row.rows.eq(row.rows - 1),
                row.memory_address.eq(row.memory_address + row.memory_pitch),
                row.local_address.eq(row.local_address + row.local_pitch),
            ]

        room = Signal(beat_bits)  # beats to the end of the block, minus 1
        left_then = Signal.like(beats_left)
        m.d.comb += [
            room.eq(~beat[:beat_bits]),
            left_then.eq(beats_left - room - 1),
            burst_moves.eq(self.bursts.valid & self.bursts.ready),
            self.bursts.valid.eq(burst_valid & ~self.halt),
            Cat(
                self.bursts.payload.is_signal, self.bursts.payload.semaphore, self.bursts.payload.signal_count
            ).eq(signal),
            self.bursts.payload.to_wm.eq(to_wm),
            self.bursts.payload.to_decoder.eq(to_decoder),
            self.bursts.payload.ends_block.eq(to_decoder & burst_is_last),
            self.bursts.payload.streamed.eq(streamed),
            self.bursts.payload.address.eq(Cat(Const(0, lane_bits), beat)),
            self.bursts.payload.local_address.eq(local_address),
            self.bursts.payload.last_beat.eq(Mux(burst_is_last, beats_left, room)),
            self.bursts.payload.first_lane.eq(first_lane),
            self.bursts.payload.last_lane.eq(last_lane | (~burst_is_last).replicate(lane_bits)),
        ]
        with m.If(row_moves):
            m.d.sync += [
                burst_valid.eq(1),
                signal.eq(Cat(row.is_signal, row.semaphore, row.signal_count)),
                to_wm.eq(row.to_wm),
                to_decoder.eq(row.to_decoder),
                streamed.eq(row.streamed),
                beat.eq(start[lane_bits:]),
                beats_left.eq(end[lane_bits:]),
                burst_is_last.eq(row.is_signal | (end[lane_bits:] <= ~start[lane_bits:][:beat_bits])),
                # The local byte that lane 0 of the first beat would have; masked when it is before the row.
                local_address.eq(row.local_address - start[:lane_bits]),
                first_lane.eq(start[:lane_bits]),
                last_lane.eq(end[:lane_bits]),
            ]
        with m.Elif(burst_moves):
            m.d.sync += [
                burst_valid.eq(~burst_is_last),
                beat.eq(Cat(Const(0, beat_bits), beat[beat_bits:] + 1)),
                beats_left.eq(left_then),
                burst_is_last.eq(left_then[beat_bits:] == 0),
                local_address.eq(local_address + Cat(Const(0, lane_bits), room + 1)),
                first_lane.eq(0),
            ]
        return m
