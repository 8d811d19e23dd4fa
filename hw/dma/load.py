"""The LOAD unit: external memory to activation or weight memory, compressed weights through the CABAC decoder."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..cabac.job import DecodeReport
from ..config import Config
from ..interfaces import AmWrite, AxiRead, Command, Status, Tokens, WmWrite
from ..isa import Error, Unit
from ..skid import SkidBuffer
from .bursts import BURST_BEATS, Burst, BurstSplitter
from .completion import OUTSTANDING_BURSTS, Completion
from .decode import BlockDecoder
from .issue import CommandIssue

AXI_ID = 0
"""`arid` of the LOAD unit."""
OUTSTANDING_BEATS = 256
"""Beats requested and not received, at most: hides 220 cycles of latency and leaves the fetcher a way in."""
INCR = 1
"""AXI burst type."""


class LoadUnit(wiring.Component):
    """Executes LOAD_* instructions.

    An issue side turns GOs into read bursts, well ahead of a retire side that writes what comes back, in
    order. WAIT stops the issue side only; SIGNAL fires when all data before it is written.
    The beats of a DECODE go to the decoder's buffer, which has a place for every beat that is requested. Bursts
    behind it are not issued before its weights are written, unless they are the next DECODE's.

    Ports:
        `commands`: instructions of the LOAD unit, in order.
        `axi`: read channels; `arid` is AXI_ID, answers are expected in order. `rready` comes from a register.
        `am`, `wm`: one beat per cycle; a write the AM does not grant holds the beat.
        `tokens`, `status`: see their signatures. `busy` does not include a command that is still at the head
            of `commands`.
        `mem_base`, `mem_size`: the window in external memory in bytes, stable while busy; `mem_base` a
            multiple of W if WM is loaded, `mem_base` + `mem_size` at most 2**32.
        `beat`: a data beat was accepted from the bus in this cycle.
        `decoding`: a block of compressed weights is being decoded.
        `damaged`: the stream behind an error DECODE.
        `stall_bus`: a beat was asked for and does not come; `stall_am`: one is there and not granted.
        `streamed_word`: a word of a streamed GO is written to WM in the next cycle.
        `stop`: behave as after an error from the next cycle on.

    After an error, or `stop`, nothing new is issued, no SIGNAL fires and no other beat is written; answers that are
    under way are accepted and dropped; `busy` falls once there are none. Before it applies reset, the top
    must raise `stop` and wait until `busy` is low: then the bus is idle.

    Timing: the address of the first burst is valid 3 cycles after its GO is at the head of `commands`; one
    burst per cycle. A beat accepted in cycle t is written in t + 2, and SIGNAL fires from t + 3 on.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "commands": In(Command),
                "axi": Out(AxiRead(config)),
                "am": Out(AmWrite(config)),
                "wm": Out(WmWrite(config)),
                "tokens": Out(Tokens()),
                "status": Out(Status()),
                "mem_base": In(32),
                "mem_size": In(32),
                "beat": Out(1),
                "decoding": Out(1),
                "damaged": Out(DecodeReport),
                "streamed_word": Out(1),
                "stall_bus": Out(1),
                "stall_am": Out(1),
                "stop": In(1),
            }
        )
        self._splitter = BurstSplitter(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        word_bytes, lane_bits = config.word_bytes, exact_log2(config.word_bytes)
        all_lanes = Const((1 << word_bytes) - 1, word_bytes)
        halted = Signal()
        m.submodules.issue = issue = CommandIssue(Unit.LOAD, config)
        m.submodules.splitter = splitter = self._splitter
        m.submodules.completion = completion = Completion()
        m.submodules.beats = beats = SkidBuffer(data.StructLayout({"data": 8 * word_bytes, "resp": 2}))
        m.submodules.descriptors = descriptors = SyncFIFOBuffered(
            width=Burst(config).size, depth=OUTSTANDING_BURSTS + 1
        )
        wiring.connect(m, wiring.flipped(self.commands), issue.commands)
        wiring.connect(m, issue.jobs, splitter.jobs)

        # Issue: a burst goes to the address register, the descriptors and the count at once.
        burst = splitter.bursts.payload
        read = self.axi
        m.submodules.addresses = addresses = SkidBuffer(
            data.StructLayout({"address": 32, "length": exact_log2(BURST_BEATS)})
        )
        beats_under_way = Signal(range(OUTSTANDING_BEATS + 1))
        fits = Signal(init=1)
        can_issue = Signal()
        # Of the decoder; all 0 if there is none.
        block_room, writes_decoded, decoded_to_wm = Signal(), Signal(), Signal()
        decoded = stream.Signature(8 * word_bytes).create()
        illegal_block, damaged = Signal(), Signal()
        issues = Signal()
        m.d.comb += [
            can_issue.eq(
                addresses.input.ready
                & descriptors.w_rdy
                & completion.room
                & fits
                & Mux(burst.to_decoder, block_room, completion.decoded)
            ),
            splitter.bursts.ready.eq(Mux(burst.is_signal, completion.signals.ready, can_issue)),
            issues.eq(splitter.bursts.valid & ~burst.is_signal & can_issue),
            completion.signals.valid.eq(splitter.bursts.valid & burst.is_signal),
            completion.signals.payload.semaphore.eq(burst.semaphore),
            completion.signals.payload.signal_count.eq(burst.signal_count),
            completion.issued.eq(issues),
            completion.block_issued.eq(issues & burst.ends_block),
            descriptors.w_en.eq(issues),
            descriptors.w_data.eq(burst),
            read.arid.eq(AXI_ID),
            addresses.input.valid.eq(issues),
            addresses.input.payload.address.eq(burst.address),
            addresses.input.payload.length.eq(burst.last_beat),
            addresses.output.ready.eq(read.arready),
            read.araddr.eq(addresses.output.payload.address),
            read.arlen.eq(addresses.output.payload.length),
            read.arsize.eq(lane_bits),
            read.arburst.eq(INCR),
            read.arvalid.eq(addresses.output.valid),
        ]
        # In a register. In the cycle after an issue a whole burst is reckoned with, and not what retired.
        room_for_two = beats_under_way <= OUTSTANDING_BEATS - 2 * BURST_BEATS
        m.d.sync += fits.eq(Mux(issues, room_for_two, beats_under_way <= OUTSTANDING_BEATS - BURST_BEATS))

        # Retire: the beat in the buffer belongs to the oldest descriptor.
        head = data.View(Burst(config), descriptors.r_data)
        index = Signal(exact_log2(BURST_BEATS))
        next_address = Signal(24, reset_less=True)
        address = Signal(24)
        begins_burst = Signal(init=1)  # index == 0
        is_first = Signal()
        is_last = Signal()
        ends_burst = Signal()
        bad = Signal()
        writes, writes_am, writes_wm = Signal(), Signal(), Signal()
        retires = Signal()
        # What was retired: its write is made in this cycle, or waits for its grant, and then counts as complete.
        asking, ended_burst, leaves = Signal(), Signal(), Signal()
        m.d.comb += [
            beats.input.valid.eq(read.rvalid),
            beats.input.payload.data.eq(read.rdata),
            beats.input.payload.resp.eq(read.rresp),
            read.rready.eq(beats.input.ready),
            self.beat.eq(read.rvalid & read.rready),
            # Decoded weights come only while no beats do that are not for the decoder.
            is_first.eq(begins_burst & ~writes_decoded),
            is_last.eq((index == head.last_beat) & ~writes_decoded),
            address.eq(Mux(is_first, head.local_address, next_address)),
            bad.eq(beats.output.payload.resp != 0),
            writes.eq(beats.output.valid & descriptors.r_rdy & ~(halted | bad | head.to_decoder)),
            leaves.eq(~asking | self.am.grant),
            beats.output.ready.eq(descriptors.r_rdy & leaves),
            retires.eq(beats.output.valid & beats.output.ready),
            decoded.ready.eq(leaves),
            writes_am.eq((writes & ~head.to_wm) | (decoded.valid & ~(halted | decoded_to_wm))),
            writes_wm.eq((writes & head.to_wm) | (decoded.valid & decoded_to_wm & ~halted)),
            self.am.prepare.eq(leaves),
            self.am.request.eq(asking),
            self.am.address.eq(address),
            self.am.data.eq(Mux(writes_decoded, decoded.payload, beats.output.payload.data)),
            self.am.mask.eq(
                (all_lanes << Mux(is_first, head.first_lane, 0))
                & (all_lanes >> Mux(is_last, ~head.last_lane, 0))
            ),
            self.stall_bus.eq(descriptors.r_rdy & ~beats.output.valid),
            self.stall_am.eq(self.am.request & ~self.am.grant),
            self.streamed_word.eq(writes & leaves & head.to_wm & head.streamed),
            ends_burst.eq(index == head.last_beat),
            descriptors.r_en.eq(retires & ends_burst),
            completion.completed.eq(ended_burst & leaves),
        ]
        with m.If(leaves):
            m.d.sync += [asking.eq(writes_am), ended_burst.eq(retires & ends_burst)]
        m.d.sync += [
            self.wm.enable.eq(writes_wm & leaves),
            self.wm.address.eq(address[lane_bits:]),
            self.wm.data.eq(self.am.data),
        ]
        with m.If((retires & ~head.to_decoder) | (decoded.valid & decoded.ready)):
            m.d.sync += next_address.eq(address + word_bytes)
        with m.If(retires):
            m.d.sync += [index.eq(Mux(ends_burst, 0, index + 1)), begins_burst.eq(ends_burst)]
        m.d.sync += beats_under_way.eq(
            beats_under_way + Mux(issues, Cat(burst.last_beat, Const(0, 1)) + 1, 0) - retires
        )
        if config.cabac_engines:
            block_ended = Signal()
            m.submodules.decoder = decoder = BlockDecoder(config)
            wiring.connect(m, issue.blocks, decoder.jobs)
            m.d.comb += [
                block_room.eq(decoder.room),
                decoder.requested.eq(
                    Mux(issues & burst.to_decoder, Cat(burst.last_beat, Const(0, 1)) + 1, 0)
                ),
                decoder.words.valid.eq(retires & head.to_decoder & ~(halted | bad)),
                decoder.words.payload.eq(beats.output.payload.data),
                decoded.valid.eq(decoder.weights.valid),
                decoded.payload.eq(decoder.weights.payload),
                decoder.weights.ready.eq(decoded.ready),
                completion.block_decoded.eq(block_ended & leaves),
                illegal_block.eq(decoder.illegal),
                damaged.eq(decoder.failed),
                self.decoding.eq(decoder.active),
                self.damaged.eq(decoder.report),
            ]
            # The block's last word is written in the cycle after, or when it is granted.
            with m.If(decoder.ended):
                m.d.sync += block_ended.eq(1)
            with m.Elif(leaves):
                m.d.sync += block_ended.eq(0)
            with m.If(decoder.starts):
                m.d.sync += [
                    writes_decoded.eq(1),
                    decoded_to_wm.eq(decoder.to_wm),
                    next_address.eq(decoder.local_address),
                ]
            with m.Elif(decoder.ended):
                m.d.sync += writes_decoded.eq(0)

        bus_error = retires & bad & ~halted
        m.d.comb += [
            splitter.mem_base.eq(self.mem_base),
            splitter.mem_size.eq(self.mem_size),
            issue.halt.eq(halted),
            splitter.halt.eq(halted),
            completion.halt.eq(halted | self.tokens.signal_full),
            self.tokens.wait.eq(issue.wait),
            self.tokens.semaphore.eq(issue.semaphore),
            self.tokens.count.eq(issue.count),
            issue.ok.eq(self.tokens.ok),
            self.tokens.signal.eq(completion.signal),
            self.tokens.signal_semaphore.eq(completion.signal_semaphore),
            self.tokens.signal_count.eq(completion.signal_count),
            self.status.busy.eq(
                completion.outstanding
                | asking
                | self.wm.enable
                | (~halted & (splitter.busy | completion.waiting | completion.decodes))
            ),
            self.status.progress.eq(
                (self.commands.valid & self.commands.ready)
                | (read.arvalid & read.arready)
                | self.beat
                | retires
                | (decoded.valid & decoded.ready)
            ),
            self.status.error.eq(bus_error | splitter.error | ((illegal_block | damaged) & ~halted)),
            self.status.code.eq(
                Mux(
                    bus_error,
                    Error.BUS_READ,
                    Mux(splitter.error, splitter.code, Mux(damaged, Error.DECODE, Error.ILLEGAL)),
                )
            ),
        ]
        with m.If(self.status.error | self.stop):
            m.d.sync += halted.eq(1)
        return m
