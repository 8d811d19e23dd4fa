"""Which bursts are complete, and the SIGNALs that wait for them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

OUTSTANDING_BURSTS = 32
"""Bursts issued and not complete, at most."""
_SIGNALS = 8
"""SIGNALs waiting, at most."""
_BLOCK_BITS = 5
"""Likewise of blocks of compressed weights: up to four ahead, _SIGNALS behind."""
_COUNT_BITS = exact_log2(OUTSTANDING_BURSTS) + 2
"""Burst numbers are compared modulo this: wide enough for OUTSTANDING_BURSTS ahead and _SIGNALS behind."""

SIGNAL_LAYOUT = data.StructLayout({"semaphore": 4, "signal_count": 8})


class Completion(wiring.Component):
    """Numbers the bursts of a DMA unit and fires each SIGNAL once all bursts issued before it are complete, and all
    blocks of compressed weights decoded.

    SIGNALs pass beside the data, so that they cost no cycle on the bus.

    Ports:
        `issued`: a burst was issued in this cycle; only while `room`.
        `room`: fewer than OUTSTANDING_BURSTS bursts are under way. From a register.
        `completed`: the oldest burst became complete in this cycle.
        `block_issued`: all of a block's bursts were issued. `block_decoded`: the oldest block is through.
        `decodes`: there are blocks issued and not decoded. `decoded`: there are none, from a register: not before the
            cycle after.
        `signals`: a SIGNAL behind everything issued so far.
        `outstanding`: bursts are under way.
        `waiting`: SIGNALs are.
        `halt`: SIGNALs do not fire.
        `signal`, `signal_semaphore`, `signal_count`: as in `Tokens`; at the earliest one cycle after the last
            `completed`.
    """

    issued: In(1)
    room: Out(1, init=1)
    completed: In(1)
    block_issued: In(1)
    block_decoded: In(1)
    decodes: Out(1)
    decoded: Out(1, init=1)
    signals: In(stream.Signature(SIGNAL_LAYOUT))
    outstanding: Out(1)
    waiting: Out(1)
    halt: In(1)
    signal: Out(1)
    signal_semaphore: Out(4)
    signal_count: Out(8)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        issued_count = Signal(_COUNT_BITS)
        completed_count = Signal(_COUNT_BITS)
        under_way = Signal(_COUNT_BITS)
        behind = Signal(_COUNT_BITS)
        m.d.sync += [
            issued_count.eq(issued_count + self.issued),
            completed_count.eq(completed_count + self.completed),
            # What completes in this cycle counts in the next one.
            self.room.eq(under_way < Mux(self.issued, OUTSTANDING_BURSTS - 1, OUTSTANDING_BURSTS)),
        ]
        blocks_issued = Signal(_BLOCK_BITS)
        blocks_decoded = Signal(_BLOCK_BITS)
        blocks_behind = Signal(_BLOCK_BITS)
        m.d.sync += [
            blocks_issued.eq(blocks_issued + self.block_issued),
            blocks_decoded.eq(blocks_decoded + self.block_decoded),
            self.decoded.eq((blocks_issued == blocks_decoded) & ~self.block_issued),
        ]
        entry = data.StructLayout(
            {"signal": SIGNAL_LAYOUT, "after": _COUNT_BITS, "after_blocks": _BLOCK_BITS}
        )
        m.submodules.queue = queue = SyncFIFO(width=entry.size, depth=_SIGNALS)
        head = data.View(entry, queue.r_data)
        tail = data.View(entry, queue.w_data)
        m.d.comb += [
            under_way.eq(issued_count - completed_count),
            self.outstanding.eq(under_way != 0),
            tail.signal.eq(self.signals.payload),
            tail.after.eq(issued_count),
            tail.after_blocks.eq(blocks_issued),
            queue.w_en.eq(self.signals.valid),
            self.signals.ready.eq(queue.w_rdy),
            # A difference in the upper half is negative: bursts before the signal are still under way.
            behind.eq(completed_count - head.after),
            blocks_behind.eq(blocks_decoded - head.after_blocks),
            self.decodes.eq(blocks_issued != blocks_decoded),
            self.signal.eq(queue.r_rdy & ~behind[-1] & ~blocks_behind[-1] & ~self.halt),
            queue.r_en.eq(self.signal),
            self.signal_semaphore.eq(head.signal.semaphore),
            self.signal_count.eq(head.signal.signal_count),
            self.waiting.eq(queue.r_rdy),
        ]
        return m
