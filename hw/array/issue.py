"""Issues slots: makes their memory reads, or waits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from .layouts import Control, Operands, Slot


class Located(data.StructLayout):
    """A slot with its addresses."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "control": Control(config),
                "last": 1,
                "read_weights": 1,
                "address": bits_for(config.am_bytes - 1),
                "second": bits_for(config.am_bytes - 1),
                "weights": bits_for(config.wm_words - 1),
                "streamed": 1,
                "operands": Operands(config),
            }
        )


class Issue(wiring.Component):
    """Three stages between walker and memories: add up addresses and bounds, prepare the AM's read, then make it.

    A slot is issued when its AM read is granted, if it delivers a vector, there is `room` for that, and, if its
    weights are streamed, they are there. A word that lies outside the image altogether is not read.

    slots: from the walker.
    am_prepare, am_address, am_paired, am_second, am_request, am_grant: the activation memory's read port.
    wm_enable, wm_address: that of the weight memory; read a cycle after the slot is issued.
    room: space for another vector (must not depend on `issued`).
    weights_there: a streamed word of weights is there (must not depend on `issued`); weights_taken: it is read.
    issued: a slot is issued in this cycle, doing `control` with `operands`; its data follow two cycles later, its
        weights three.
    last: with `issued`, this was the last slot of a job.
    held_by_am, held_by_room, held_by_weights: why a slot that is there is not issued.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "slots": In(stream.Signature(Slot(config))),
                "am_prepare": Out(1),
                "am_request": Out(1),
                "am_address": Out(24),
                "am_paired": Out(1),
                "am_second": Out(24),
                "am_grant": In(1),
                "wm_enable": Out(1),
                "wm_address": Out(20),
                "room": In(1),
                "weights_there": In(1),
                "weights_taken": Out(1),
                "issued": Out(1),
                "control": Out(Control(config)),
                "operands": Out(Operands(config)),
                "last": Out(1),
                "waiting": Out(1),
                "held_by_am": Out(1),
                "held_by_room": Out(1),
                "held_by_weights": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word_bytes, slots = self._config.word_bytes, self.slots
        a_valid, a = Signal(), Signal(Slot(self._config), reset_less=True)
        b_valid, b = Signal(), Signal(Located(self._config), reset_less=True)
        c_valid, c = Signal(), Signal(Located(self._config), reset_less=True)
        spare_valid, spare = Signal(), Signal(Located(self._config), reset_less=True)
        located, following = Signal(Located(self._config)), Signal(Located(self._config))
        reads = Signal(reset_less=True)  # c does
        m.d.comb += slots.ready.eq(~spare_valid)

        held = Signal()
        # low: bytes before the image row; high: bytes before the image row's end; both within 0..W.
        to_end = Signal(a.column.shape())
        low, high, across = Signal(b.operands.low.shape()), Signal(b.operands.high.shape()), Signal()
        m.d.comb += [
            to_end.eq(a.row_bytes - a.column),
            low.eq(Mux(a.column >= 0, 0, Mux(a.column > -word_bytes, -a.column, word_bytes))),
            high.eq(Mux(to_end <= 0, 0, Mux(to_end < word_bytes, to_end, word_bytes))),
            across.eq(a.read & (a.column > -word_bytes) & (to_end > 0)),
        ]
        m.d.comb += [
            located.control.eq(a.control),
            located.last.eq(a.last),
            located.read_weights.eq(a.read_weights),
            located.address.eq(a.base + a.column),
            located.second.eq(a.base + a.column + a.pitch),
            located.weights.eq(a.weights),
            located.streamed.eq(a.streamed & a.read_weights),
            located.operands.inside.eq(across & (a.line >= 0) & (a.line < a.height)),
            located.operands.second_inside.eq(
                across & a.control.paired & (a.line >= -1) & (a.line + 1 < a.height)
            ),
            located.operands.low.eq(low),
            located.operands.high.eq(high),
            located.operands.input_zp.eq(a.input_zp),
            located.operands.weight_zp.eq(a.weight_zp),
            located.operands.unsigned_input.eq(a.unsigned_input),
        ]
        with m.If(slots.ready):
            m.d.sync += [a_valid.eq(slots.valid), a.eq(slots.payload), b_valid.eq(a_valid), b.eq(located)]

        # A grant comes late in its cycle. The spare register keeps it from everything before stage C.
        with m.If(slots.ready):
            m.d.sync += spare.eq(b)
        m.d.comb += following.eq(Mux(spare_valid, spare, b))
        with m.If(self.am_prepare):
            m.d.sync += [
                c_valid.eq(b_valid | spare_valid),
                c.eq(following),
                reads.eq(following.operands.inside | following.operands.second_inside),
                spare_valid.eq(0),
            ]
        with m.Elif(slots.ready):
            m.d.sync += spare_valid.eq(b_valid)

        m.d.comb += [
            self.held_by_room.eq(c_valid & c.control.deliver & ~self.room),
            self.held_by_weights.eq(c_valid & c.streamed & ~self.weights_there & ~self.held_by_room),
            held.eq(self.held_by_room | self.held_by_weights),
            self.am_prepare.eq(~c_valid | self.issued),
            self.am_address.eq(following.address),
            self.am_paired.eq(following.control.paired),
            self.am_second.eq(following.second),
            self.am_request.eq(c_valid & reads & ~held),
            self.held_by_am.eq(self.am_request & ~self.am_grant),
            self.issued.eq(c_valid & ~held & ~self.held_by_am),
            self.weights_taken.eq(self.issued & c.streamed),
            self.control.eq(c.control),
            self.operands.eq(c.operands),
            self.last.eq(c.last),
            self.waiting.eq(a_valid | b_valid | c_valid),
        ]
        m.d.sync += [self.wm_enable.eq(self.issued & c.read_weights), self.wm_address.eq(c.weights)]
        return m
