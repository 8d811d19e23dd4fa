"""The LOAD unit: external memory to activation or weight memory, compressed weights through the CABAC decoder."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import Out
from amaranth.utils import exact_log2

from ..cabac.job import DecodeReport
from ..config import Config
from ..constants import AXI_INCR, BURST_BEATS, OUTSTANDING_BEATS, OUTSTANDING_BURSTS
from ..interfaces import LOCAL_ADDRESS_BITS, MEMORY_ADDRESS_BITS, AmWrite, AxiRead, WmWrite
from ..isa import Error, Unit
from ..skid import SkidBuffer
from .bursts import BEAT_BITS, Burst, beats_of, lanes_of
from .decode import BlockDecoder
from .row_check import RowCheck
from .unit import DmaUnit
from .unpack import Unpacker

AXI_ID = 0
"""`arid` of the LOAD unit."""


class LoadUnit(DmaUnit):
    """Executes LOAD_* instructions.

    The issue side turns GOs into read bursts, well ahead of the retire side, which writes what comes back, in order.
    The beats of a DECODE go to the decoder's buffer, which has a place for every beat that is requested. Bursts that
    follow a DECODE wait until its weights are written, unless they are the next DECODE's. The beats of a packed GO
    are unpacked as they retire, and words of weights are written in their place. A CHECK waits until everything before
    it is complete, and compares.

    After an error, or `stop`, nothing new is issued, no SIGNAL fires and no other beat is written; answers that are
    under way are accepted and dropped; `busy` falls once there are none. Before it applies reset, the top
    must raise `stop` and wait until `busy` is low: then the bus is idle.

    Timing: the address of the first burst is valid 3 cycles after its GO is at the head of `commands`; one
    burst per cycle. A beat accepted in cycle t is written in t + 2, and SIGNAL fires from t + 3 on.

    Ports beside those of DmaUnit:
        axi (AxiRead, out): `arid` is AXI_ID; answers are expected in order; `rready` comes from a register.
        am (AmWrite, out): one beat per cycle; a write that is not granted holds the beat.
        wm (WmWrite, out): one beat per cycle; `mem_base` is a multiple of W if it is used.
        decoding (1, out): a block of compressed weights is being decoded.
        damaged (DecodeReport, out): which stream an error DECODE is about, and why.
        streamed_word (1, out): a word of a streamed GO is written to WM in the next cycle.
    """

    def __init__(self, config: Config):
        super().__init__(
            Unit.LOAD,
            config,
            {
                "axi": Out(AxiRead(config)),
                "am": Out(AmWrite(config)),
                "wm": Out(WmWrite(config)),
                "decoding": Out(1),
                "damaged": Out(DecodeReport),
                "streamed_word": Out(1),
            },
        )
        word = 8 * config.word_bytes
        self.addresses = SkidBuffer(data.StructLayout({"address": MEMORY_ADDRESS_BITS, "length": BEAT_BITS}))
        # Bursts that are issued and not retired. Off the critical path: the oldest one is `head`, in registers.
        self.descriptors = SyncFIFOBuffered(width=Burst(config).size, depth=OUTSTANDING_BURSTS + 1)
        self.oldest = SkidBuffer(Burst(config))
        self.head, self.head_valid = self.oldest.output.payload, self.oldest.output.valid
        self.beats = SkidBuffer(data.StructLayout({"data": word, "resp": 2}))
        # The oldest beat retires: it leaves its buffer, and its write is prepared. `asking`: the prepared write is
        # for the AM and waits for its grant. `leaves`: the prepared write, if there is one, is made in this cycle.
        self.retires, self.ends_burst, self.bad = Signal(), Signal(), Signal()
        self.asking, self.leaves = Signal(), Signal()
        self.begins_burst = Signal(init=1)
        # For the proofs: beats that are requested and have not retired, the oldest one's number in its burst, and that
        # the beat in front of it was its burst's last one.
        self.beats_under_way, self.index = Signal(range(OUTSTANDING_BEATS + 1)), Signal(BEAT_BITS)
        self.ended_burst = Signal()
        self.next_address = Signal(LOCAL_ADDRESS_BITS, reset_less=True)
        # Of the decoder; all 0 if there is none.
        self.decoded = stream.Signature(word).create()
        self.block_room, self.writes_decoded, self.decoded_to_wm = Signal(), Signal(), Signal()
        self.illegal_block, self.damaged_block = Signal(), Signal()
        # Of the unpacker; all 0 if there is none.
        self.unpacked = stream.Signature(word).create()
        self.begins_row, self.used, self.wrong_row = Signal(), Signal(), Signal()
        self.unpacks_streamed = Signal()
        # Of the CRC; 0 if there is none.
        self.wrong_crc = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._issue_commands(m)
        self._issue_reads(m)
        self._retire_beats(m)
        self._write(m)
        if self.config.cabac_engines:
            self._decode_blocks(m)
        if self.config.unpackers:
            self._unpack_rows(m)
        if self.config.load_crc:
            self._check_rows(m)
        self._report(m)
        return m

    def _issue_reads(self, m: Module) -> None:
        """A burst goes to the address buffer, to the descriptors and to the count of beats in one cycle."""
        burst, read, issues = self.burst, self.axi, self.issues
        m.submodules.addresses, m.submodules.descriptors = self.addresses, self.descriptors
        address, length = self.addresses.input.payload.address, self.addresses.input.payload.length
        fits = Signal(init=1)
        beats_under_way = self.beats_under_way
        m.d.comb += [
            self.can_issue.eq(
                self.addresses.input.ready
                & self.descriptors.w_rdy
                & self.completion.room
                & fits
                & Mux(burst.purpose.to_decoder, self.block_room, self.completion.decoded)
            ),
            self.completion.block_issued.eq(issues & burst.ends_block & burst.purpose.to_decoder),
            self.descriptors.w_en.eq(issues),
            self.descriptors.w_data.eq(burst),
            self.addresses.input.valid.eq(issues),
            address.eq(burst.address),
            length.eq(burst.last_beat),
            self.addresses.output.ready.eq(read.arready),
            read.arid.eq(AXI_ID),
            read.araddr.eq(self.addresses.output.payload.address),
            read.arlen.eq(self.addresses.output.payload.length),
            read.arsize.eq(exact_log2(self.config.word_bytes)),
            read.arburst.eq(AXI_INCR),
            read.arvalid.eq(self.addresses.output.valid),
        ]
        # Off the critical path: `fits` is a register. The count lags behind it by a cycle, so it allows a whole burst
        # for an issue in this cycle, and ignores a beat that retires.
        one_fits = beats_under_way <= OUTSTANDING_BEATS - BURST_BEATS
        two_fit = beats_under_way <= OUTSTANDING_BEATS - 2 * BURST_BEATS
        # Nor is it known early that a beat retires.
        requested = beats_under_way + Mux(issues, beats_of(burst), 0)
        m.d.sync += [
            fits.eq(Mux(issues, two_fit, one_fits)),
            beats_under_way.eq(Mux(self.retires, requested - 1, requested)),
        ]

    def _retire_beats(self, m: Module) -> None:
        """The oldest beat belongs to the oldest descriptor. It retires unless a write before it waits for its grant."""
        m.submodules.beats, m.submodules.oldest = beats, _ = self.beats, self.oldest
        read, descriptors = self.axi, self.descriptors
        index, ended_burst = self.index, self.ended_burst
        m.d.comb += [
            beats.input.valid.eq(read.rvalid),
            beats.input.payload.data.eq(read.rdata),
            beats.input.payload.resp.eq(read.rresp),
            read.rready.eq(beats.input.ready),
            self.beat.eq(read.rvalid & read.rready),
            self.bad.eq(beats.output.payload.resp != 0),
            # A beat that is unpacked retires when it was used; after a fault nothing is unpacked.
            beats.output.ready.eq(
                self.head_valid
                & Mux(self.head.purpose.packed & ~(self.halted | self.bad), self.used, self.leaves)
            ),
            self.retires.eq(beats.output.valid & beats.output.ready),
            self.ends_burst.eq(index == self.head.last_beat),
            descriptors.r_en.eq(self.oldest.input.ready),
            self.oldest.input.valid.eq(descriptors.r_rdy),
            self.oldest.input.payload.eq(descriptors.r_data),
            self.oldest.output.ready.eq(self.retires & self.ends_burst),
            self.stall_bus.eq((descriptors.r_rdy | self.head_valid) & ~beats.output.valid),
            # A burst is complete in the cycle in which its last write is made.
            self.completion.completed.eq(ended_burst & self.leaves),
        ]
        with m.If(self.leaves):
            m.d.sync += ended_burst.eq(self.retires & self.ends_burst)
        with m.If(self.retires):
            m.d.sync += [index.eq(Mux(self.ends_burst, 0, index + 1)), self.begins_burst.eq(self.ends_burst)]

    def _write(self, m: Module) -> None:
        """A retired beat or a word of decoded weights is prepared for the AM or written to the WM.

        Decoded weights come only while all beats on their way are for the decoder, and unpacked ones while the oldest
        beat is of a packed row.
        """
        head, decoded, beats, am = self.head, self.decoded, self.beats, self.am
        halted, leaves, word_bytes = self.halted, self.leaves, self.config.word_bytes
        address = Signal(LOCAL_ADDRESS_BITS)
        is_first, is_last = Signal(), Signal()
        writes, writes_am, writes_wm = Signal(), Signal(), Signal()
        m.d.comb += [
            is_first.eq(self.begins_burst & ~(self.writes_decoded | self.unpacked.valid)),
            is_last.eq(self.ends_burst & ~self.writes_decoded),
            address.eq(Mux(is_first, head.local_address, self.next_address)),
            writes.eq(
                beats.output.valid
                & self.head_valid
                & ~(halted | self.bad | head.purpose.to_decoder | head.purpose.packed)
            ),
            writes_am.eq((writes & ~head.purpose.to_wm) | (decoded.valid & ~(halted | self.decoded_to_wm))),
            writes_wm.eq(
                (writes & head.purpose.to_wm)
                | (((decoded.valid & self.decoded_to_wm) | self.unpacked.valid) & ~halted)
            ),
            leaves.eq(~self.asking | am.grant),
            decoded.ready.eq(leaves),
            self.unpacked.ready.eq(leaves),
            am.prepare.eq(leaves),
            am.request.eq(self.asking),
            am.address.eq(address),
            am.data.eq(Mux(self.writes_decoded, decoded.payload, beats.output.payload.data)),
            am.mask.eq(lanes_of(head, is_first, is_last, word_bytes)),
            self.stall_am.eq(am.request & ~am.grant),
            self.streamed_word.eq(
                leaves
                & (
                    (writes & head.purpose.to_wm & head.purpose.streamed)
                    | (self.unpacked.valid & self.unpacks_streamed & ~halted)
                )
            ),
        ]
        with m.If(leaves):
            m.d.sync += self.asking.eq(writes_am)
        m.d.sync += [
            self.wm.enable.eq(writes_wm & leaves),
            self.wm.address.eq(address[exact_log2(word_bytes) :]),
            self.wm.data.eq(Mux(self.unpacked.valid, self.unpacked.payload, am.data)),
        ]
        moves_on = self.retires & ~(head.purpose.to_decoder | head.purpose.packed)
        with m.If(moves_on | (decoded.valid & decoded.ready) | (self.unpacked.valid & leaves)):
            m.d.sync += self.next_address.eq(address + word_bytes)
        with m.If(self.begins_row):
            m.d.sync += [
                self.next_address.eq(head.local_address),
                self.unpacks_streamed.eq(head.purpose.streamed),
            ]

    def _unpack_rows(self, m: Module) -> None:
        """Beats of a packed GO become words of weights. The last beat of a row is the head until all were written."""
        m.submodules.unpacker = unpacker = Unpacker(self.config)
        head, beats = self.head, self.beats
        wiring.connect(m, unpacker.weights, wiring.flipped(self.unpacked))
        m.d.comb += [
            # Not while a write before them waits for its grant: a burst that ended meanwhile would never be complete.
            unpacker.beats.valid.eq(
                beats.output.valid
                & self.head_valid
                & head.purpose.packed
                & ~(self.halted | self.bad | self.asking)
            ),
            unpacker.beats.payload.eq(beats.output.payload.data),
            unpacker.last.eq(head.ends_block & self.ends_burst),
            self.used.eq(unpacker.beats.ready),
            self.begins_row.eq(unpacker.header),
            self.wrong_row.eq(unpacker.wrong),
        ]

    def _decode_blocks(self, m: Module) -> None:
        """The beats of a DECODE become words of weights, which take the place of beats."""
        m.submodules.decoder = decoder = BlockDecoder(self.config)
        wiring.connect(m, self.issue.blocks, decoder.jobs)
        wiring.connect(m, decoder.weights, wiring.flipped(self.decoded))
        burst, block_ended = self.burst, Signal()
        m.d.comb += [
            self.block_room.eq(decoder.room),
            decoder.requested.eq(Mux(self.issues & burst.purpose.to_decoder, beats_of(burst), 0)),
            # A beat that retires; what is unpacked is for no decoder.
            decoder.words.valid.eq(
                self.beats.output.valid
                & self.head_valid
                & self.leaves
                & self.head.purpose.to_decoder
                & ~(self.halted | self.bad)
            ),
            decoder.words.payload.eq(self.beats.output.payload.data),
            self.completion.block_decoded.eq(block_ended & self.leaves),
            self.illegal_block.eq(decoder.illegal),
            self.damaged_block.eq(decoder.failed),
            self.decoding.eq(decoder.active),
            self.damaged.eq(decoder.report),
        ]
        # The block's last word is written in the cycle after `ended`, or when it is granted.
        with m.If(decoder.ended):
            m.d.sync += block_ended.eq(1)
        with m.Elif(self.leaves):
            m.d.sync += block_ended.eq(0)
        with m.If(decoder.starts):
            m.d.sync += [
                self.writes_decoded.eq(1),
                self.decoded_to_wm.eq(decoder.to_wm),
                self.next_address.eq(decoder.local_address),
            ]
        with m.Elif(decoder.ended):
            m.d.sync += self.writes_decoded.eq(0)

    def _check_rows(self, m: Module) -> None:
        """The beats of checked GOs enter the CRC as they retire, wherever they go; a CHECK waits until all have."""
        m.submodules.row_check = check = RowCheck(self.config)
        head, issue = self.head, self.issue
        m.d.comb += [
            check.beat.eq(self.retires & head.purpose.checked & ~(self.halted | self.bad)),
            check.data.eq(self.beats.output.payload.data),
            check.lanes.eq(lanes_of(head, self.begins_burst, self.ends_burst, self.config.word_bytes)),
            issue.settled.eq(~(self.splitter.busy | self.completion.outstanding)),
            check.compare.eq(issue.check),
            check.expected.eq(issue.crc),
            self.wrong_crc.eq(check.wrong),
        ]

    def _report(self, m: Module) -> None:
        """Busy, progress and faults."""
        read, splitter, completion = self.axi, self.splitter, self.completion
        bus_error = self.retires & self.bad & ~self.halted
        m.d.comb += [
            self.status.busy.eq(
                completion.outstanding
                | self.asking
                | self.wm.enable
                | (~self.halted & (splitter.busy | completion.waiting | completion.decodes))
            ),
            self.status.progress.eq(
                (self.commands.valid & self.commands.ready)
                | (read.arvalid & read.arready)
                | self.beat
                | self.retires
                | (self.decoded.valid & self.decoded.ready)
            ),
        ]
        other_code = Mux(self.damaged_block, Error.DECODE, Error.ILLEGAL)
        if self.config.load_crc:
            other_code = Mux(self.wrong_crc, Error.DATA, other_code)
        self._halt_on(
            m,
            bus_error
            | splitter.error
            | ((self.illegal_block | self.damaged_block | self.wrong_row | self.wrong_crc) & ~self.halted),
            Mux(bus_error, Error.BUS_READ, Mux(splitter.error, splitter.code, other_code)),
        )
