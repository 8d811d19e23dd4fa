"""Packed weights (`packed_weights.py`) on their way from LOAD's beats to the weight memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ..config import Config
from ..packed_weights import (
    COUNT_BITS,
    FIFO_BYTES,
    MODE_BITS,
    PALETTE_DEPTH,
    PALETTE_SIZE,
    TURNS,
    WORDS_PER_CODE,
    WeightCoding,
)

_PLACE_BITS = exact_log2(PALETTE_DEPTH)
_PHASE_BITS = exact_log2(max(WORDS_PER_CODE.values()))


class UnpackLane(wiring.Component):
    """A FIFO of weights, and the palette in its place.

    Ports:
        clear (1, in): nothing is in the FIFO from the next cycle on.
        push (1, in): `data` enters; with `keep_all` also where the FIFO is full, which is for a palette.
        keep_all (1, in): see push.
        data (8, in): a weight.
        code (8, in): codes of the words of weights to come.
        phase (_PHASE_BITS, in): which of them is next.
        mode (Mode, in): how they are coded.
        lacks (1, out): the next word needs a weight of the FIFO, and there is none.
        take (1, in): the next word is made in this cycle; not while `lacks`.
        weight (8, out): of the word that was made last, from a register.
    """

    clear: In(1)
    push: In(1)
    keep_all: In(1)
    data: In(8)
    code: In(8)
    phase: In(_PHASE_BITS)
    mode: In(MODE_BITS)
    lacks: Out(1)
    take: In(1)
    weight: Out(8)

    def __init__(self) -> None:
        super().__init__()
        # The state, for the tests' proofs: the places of the oldest weight and of the next one.
        self.first = Signal(_PLACE_BITS)
        self.end = Signal(_PLACE_BITS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.places = places = memory.Memory(shape=8, depth=PALETTE_DEPTH, init=[])
        write, read = places.write_port(), places.read_port(domain="comb")
        first, end = self.first, self.end
        wanted, enters = Signal(), Signal()
        is_mask = self.mode == WeightCoding.MASK
        full = (end + (1 << _PLACE_BITS) - FIFO_BYTES)[:_PLACE_BITS] == first
        m.d.comb += [
            wanted.eq(~is_mask | self.code.bit_select(self.phase, 1)),
            self.lacks.eq(is_mask & wanted & (first == end)),
            enters.eq(self.push & (self.keep_all | ~full)),
            write.en.eq(enters),
            write.addr.eq(end),
            write.data.eq(self.data),
        ]
        with m.Switch(self.mode):
            with m.Case(WeightCoding.PALETTE_4):
                m.d.comb += read.addr.eq(self.code.word_select(self.phase[:2], 2))
            with m.Case(WeightCoding.PALETTE_16):
                m.d.comb += read.addr.eq(self.code.word_select(self.phase[:1], 4))
            with m.Default():
                m.d.comb += read.addr.eq(first)
        with m.If(self.clear):
            m.d.sync += [first.eq(0), end.eq(0)]
        with m.Else():
            m.d.sync += [first.eq(first + (self.take & wanted)), end.eq(end + enters)]
        # A reset of the register costs no logic.
        with m.If(self.take & ~wanted):
            m.d.sync += self.weight.eq(0)
        with m.Elif(self.take):
            m.d.sync += self.weight.eq(read.data)
        return m


class Unpacker(wiring.Component):
    """Unpacks rows of packed weights, one after the other.

    Timing: a beat is used in the cycle in which it is there and wanted. The header takes a cycle, and so does every
    word of a palette, the first word of codes, and every word that enters the FIFOs; then each cycle makes a word of
    weights. A word comes out two cycles after it is made.

    Ports:
        beats (stream of 8 W, in): the words of rows, in order. `ready` tells that the beat was used; a row's last
            beat stays until all words of weights were taken.
        last (1, in): the beat is its row's last.
        header (1, out): the beat is a row's first, and is used in this cycle for the first time.
        weights (stream of 8 W, out): W weights a word, from a register.
        wrong (1, out): the row is not made of what its header says. Nothing helps but a reset.
    """

    def __init__(self, config: Config):
        self.width = config.word_bytes
        word = stream.Signature(8 * self.width)
        super().__init__(
            {"beats": In(word), "last": In(1), "header": Out(1), "weights": Out(word), "wrong": Out(1)}
        )
        self.lanes = [UnpackLane() for _ in range(self.width)]
        self.started, self.stopped = Signal(), Signal()
        self.words_left = Signal(COUNT_BITS)
        self.palette_left = Signal(range(PALETTE_DEPTH + 1))
        self.mode = Signal(MODE_BITS)
        self.code, self.code_valid = Signal(8 * self.width), Signal()
        self.phase = Signal(_PHASE_BITS)
        self.last_used = Signal()
        """The row's last beat was used, and is still there."""
        self.made, self.turn, self.made_turn = Signal(), Signal(range(TURNS)), Signal(range(TURNS))
        """A word was made in the cycle before, in which the FIFOs were paired with the lanes in this way."""
        self.makes, self.uses, self.loads_code, self.pushes = Signal(), Signal(), Signal(), Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        there, wants = Signal(), Signal()
        m.d.comb += [
            there.eq(self.beats.valid & ~self.last_used & ~self.stopped),
            self.header.eq(there & ~self.started),
            self.uses.eq(there & wants),
        ]
        self._words(m, wants)
        self._lanes(m)
        self._row(m, wants)
        self._output(m)
        return m

    def _words(self, m: Module, wants: Signal) -> None:
        """Decides what the next beat is, and whether a word of weights is made."""
        in_palette, lacks, last_phase = self.palette_left.any(), Signal(), Signal()
        free = ~self.made | ~self.weights.valid | self.weights.ready
        m.d.comb += [
            lacks.eq(Cat(lane.lacks for lane in self.lanes).any()),
            self.makes.eq(self.started & self.code_valid & ~lacks & free),
            self.pushes.eq(self.uses & (in_palette | (self.code_valid & lacks))),
            self.loads_code.eq(self.uses & self.started & ~self.pushes),
        ]
        with m.Switch(self.mode):
            for mode, count in WORDS_PER_CODE.items():
                with m.Case(mode):
                    m.d.comb += last_phase.eq(self.phase == count - 1)
        ends_code = self.makes & (last_phase | (self.words_left == 1))
        m.d.comb += wants.eq(
            ~self.started
            | in_palette
            | (self.code_valid & lacks)
            | (~self.code_valid & self.words_left.any())
            | (ends_code & (self.words_left != 1))
        )
        with m.If(self.loads_code):
            m.d.sync += [self.code.eq(self.beats.payload), self.code_valid.eq(1), self.phase.eq(0)]
        with m.Elif(self.makes):
            m.d.sync += [self.phase.eq(self.phase + 1), self.code_valid.eq(~ends_code)]
        with m.If(self.makes):
            m.d.sync += [self.words_left.eq(self.words_left - 1), self.turn.eq(self.turn + 1)]

    def _lanes(self, m: Module) -> None:
        for index, lane in enumerate(self.lanes):
            m.submodules[f"lane{index}"] = lane
            m.d.comb += [
                lane.clear.eq(self.header),
                lane.push.eq(self.pushes),
                lane.keep_all.eq(self.palette_left.any()),
                lane.data.eq(self.beats.payload.word_select(index, 8)),
                lane.code.eq(self.code.word_select(index, 8)),
                lane.phase.eq(self.phase),
                lane.mode.eq(self.mode),
                lane.take.eq(self.makes),
            ]

    def _row(self, m: Module, wants: Value) -> None:
        """Header, palette, and the end of the row."""
        header, finished = self.beats.payload, Signal()
        count, mode = header[:COUNT_BITS], header[COUNT_BITS:][:MODE_BITS]
        all_made = self.started & ~self.words_left.any()
        m.d.comb += [
            finished.eq(all_made & self.last_used & ~self.made & (~self.weights.valid | self.weights.ready)),
            self.beats.ready.eq((self.uses & ~self.last) | finished),
        ]
        with m.If(self.header):
            m.d.sync += [self.started.eq(1), self.words_left.eq(count), self.mode.eq(mode), self.turn.eq(0)]
            with m.Switch(mode):
                for each, size in PALETTE_SIZE.items():
                    with m.Case(each):
                        m.d.sync += self.palette_left.eq(size)
        with m.Elif(self.pushes & self.palette_left.any()):
            m.d.sync += self.palette_left.eq(self.palette_left - 1)
        with m.If(finished):
            m.d.sync += [self.started.eq(0), self.last_used.eq(0)]
        with m.Elif(self.uses & self.last):
            m.d.sync += self.last_used.eq(1)
        # From a register: the fault is reported later than it is found.
        unknown = self.header & (~count.any() | (mode > max(WeightCoding)))
        too_short = self.started & self.last_used & wants
        too_long = all_made & self.beats.valid & ~self.last_used
        m.d.sync += self.wrong.eq((unknown | too_short | too_long) & ~self.stopped)
        with m.If(unknown | too_short | too_long):
            m.d.sync += self.stopped.eq(1)

    def _output(self, m: Module) -> None:
        """The word made last goes to its lanes, unless the word before it waits."""
        moves = ~self.weights.valid | self.weights.ready
        turned = Signal(8 * self.width)
        with m.Switch(self.made_turn):
            for turn in range(TURNS):
                with m.Case(turn):
                    m.d.comb += turned.eq(Cat(self.lanes[index ^ turn].weight for index in range(self.width)))
        with m.If(moves):
            m.d.sync += [self.weights.valid.eq(self.made), self.weights.payload.eq(turned)]
        with m.If(self.makes):
            m.d.sync += [
                self.made.eq(1),
                self.made_turn.eq(Mux(self.mode == WeightCoding.MASK, self.turn, 0)),
            ]
        with m.Elif(moves):
            m.d.sync += self.made.eq(0)
