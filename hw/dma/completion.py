"""Which bursts are complete, and the SIGNALs that wait for them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..constants import OUTSTANDING_BURSTS
from ..interfaces import COUNT_BITS, SEMAPHORE_BITS
from .bursts import SignalTokens

_SIGNALS = 8
"""Largest number of SIGNALs that wait."""
NUMBER_BITS = exact_log2(OUTSTANDING_BURSTS) + 2
"""Bits of the numbers by which bursts, and blocks of compressed weights, are compared: half of them lie ahead of a
SIGNAL, and half behind it."""
_MOST_BEHIND = (1 << (NUMBER_BITS - 1)) - 8
"""A SIGNAL that waits for its turn at the semaphores while so many bursts behind it were issued stops the issue; else
the half behind it would not do."""


class Completion(wiring.Component):
    """Numbers the bursts of a DMA unit and fires each SIGNAL once all bursts issued before it are complete, and all
    blocks of compressed weights decoded.

    SIGNALs do not travel with the data, so they cost no cycle on the bus.

    Ports:
        issued (1, in): a burst is issued in this cycle; only while `room`.
        room (1, out): fewer than OUTSTANDING_BURSTS bursts are under way, and few were issued behind a SIGNAL that
            waits; from a register.
        completed (1, in): the oldest burst becomes complete in this cycle.
        block_issued (1, in): the last burst of a block is issued in this cycle.
        block_decoded (1, in): the oldest block is decoded and written from the next cycle on.
        decodes (1, out): a block is issued and not decoded.
        decoded (1, out): no block is; from a register, hence a cycle later.
        signals (stream of SignalTokens, in): a SIGNAL that follows everything issued so far.
        outstanding (1, out): a burst is under way.
        waiting (1, out): a SIGNAL waits.
        halt (1, in): no SIGNAL fires.
        signal (1, out): as in Tokens; at the earliest a cycle after the last `completed`.
        signal_semaphore (SEMAPHORE_BITS, out): as in Tokens.
        signal_count (COUNT_BITS, out): as in Tokens.
        signal_cores (core_mask_bits, out): as in Tokens.
    """

    def __init__(self, core_mask_bits: int = 0):
        self.core_mask_bits = core_mask_bits
        # Numbers of bursts and blocks so far; for the proofs.
        self.issued_count, self.completed_count = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        self.blocks_issued, self.blocks_decoded = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        super().__init__(
            {
                "issued": In(1),
                "room": Out(1, init=1),
                "completed": In(1),
                "block_issued": In(1),
                "block_decoded": In(1),
                "decodes": Out(1),
                "decoded": Out(1, init=1),
                "signals": In(stream.Signature(SignalTokens(core_mask_bits))),
                "outstanding": Out(1),
                "waiting": Out(1),
                "halt": In(1),
                "signal": Out(1),
                "signal_semaphore": Out(SEMAPHORE_BITS),
                "signal_count": Out(COUNT_BITS),
                "signal_cores": Out(core_mask_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        issued_count, completed_count = self.issued_count, self.completed_count
        blocks_issued, blocks_decoded = self.blocks_issued, self.blocks_decoded
        under_way, behind, crowded = Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal()
        m.d.comb += [
            under_way.eq(issued_count - completed_count),
            self.outstanding.eq(under_way != 0),
            self.decodes.eq(blocks_issued != blocks_decoded),
        ]
        m.d.sync += [
            issued_count.eq(issued_count + self.issued),
            completed_count.eq(completed_count + self.completed),
            # A burst that completes in this cycle gives its place back in the next one.
            self.room.eq(
                (under_way < Mux(self.issued, OUTSTANDING_BURSTS - 1, OUTSTANDING_BURSTS)) & ~crowded
            ),
            blocks_issued.eq(blocks_issued + self.block_issued),
            blocks_decoded.eq(blocks_decoded + self.block_decoded),
            self.decoded.eq((blocks_issued == blocks_decoded) & ~self.block_issued),
        ]

        # A SIGNAL waits with the numbers of the burst and of the block that follow it.
        entry = data.StructLayout(
            {"tokens": SignalTokens(self.core_mask_bits), "burst": NUMBER_BITS, "block": NUMBER_BITS}
        )
        m.submodules.queue = queue = SyncFIFO(width=entry.size, depth=_SIGNALS)
        head, tail = data.View(entry, queue.r_data), data.View(entry, queue.w_data)
        burst_distance, block_distance = Signal(NUMBER_BITS), Signal(NUMBER_BITS)
        m.d.comb += [
            tail.tokens.eq(self.signals.payload),
            tail.burst.eq(issued_count),
            tail.block.eq(blocks_issued),
            queue.w_en.eq(self.signals.valid),
            self.signals.ready.eq(queue.w_rdy),
            # A distance in the upper half is negative: bursts before the SIGNAL are still under way.
            burst_distance.eq(completed_count - head.burst),
            block_distance.eq(blocks_decoded - head.block),
            behind.eq(issued_count - head.burst),
            crowded.eq(queue.r_rdy & (behind >= _MOST_BEHIND)),
            self.signal.eq(queue.r_rdy & ~burst_distance[-1] & ~block_distance[-1] & ~self.halt),
            queue.r_en.eq(self.signal),
            self.signal_semaphore.eq(head.tokens.semaphore),
            self.signal_count.eq(head.tokens.count),
            self.signal_cores.eq(head.tokens.cores),
            self.waiting.eq(queue.r_rdy),
        ]
        return m
