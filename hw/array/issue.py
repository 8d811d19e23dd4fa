"""Issues slots: makes their memory reads, or waits."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from .layouts import Control, Operands, Slot


class Issue(wiring.Component):
    """Two stages between walker and memories: add up addresses and bounds, then read.

    A slot is issued when its AM read is granted and, if it delivers a vector, there is `room` for that. A
    word that lies outside the image altogether is not read.

    slots: from the walker.
    am_request, am_address, am_grant; wm_enable, wm_address: the memories' read ports.
    room: space for another vector (must not depend on `issued`).
    issued: a slot is issued in this cycle, doing `control` with `operands`; its data follow two cycles later.
    last: with `issued`, this was the last slot of a job.
    held_by_am, held_by_room: why a slot that is there is not issued.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "slots": In(stream.Signature(Slot(config))),
                "am_request": Out(1),
                "am_address": Out(24),
                "am_grant": In(1),
                "wm_enable": Out(1),
                "wm_address": Out(20),
                "room": In(1),
                "issued": Out(1),
                "control": Out(Control(config)),
                "operands": Out(Operands(config)),
                "last": Out(1),
                "waiting": Out(1),
                "held_by_am": Out(1),
                "held_by_room": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word_bytes, slots = self._config.word_bytes, self.slots
        a_valid, a = Signal(), Signal(Slot(self._config), reset_less=True)
        b_valid, move = Signal(), Signal()
        read, read_weights, last = (
            Signal(reset_less=True, name=name) for name in ("read", "read_weights", "last_slot")
        )
        control = Signal(Control(self._config), reset_less=True)
        operands = Signal(Operands(self._config), reset_less=True)
        address = Signal(bits_for(self._config.am_bytes - 1), reset_less=True)
        weights = Signal(bits_for(self._config.wm_words - 1), reset_less=True)
        m.d.comb += [move.eq(~b_valid | self.issued), slots.ready.eq(move)]

        # low: bytes before the image row; high: bytes before the image row's end; both within 0..W.
        to_end = Signal(a.column.shape())
        low, high, inside = Signal(operands.low.shape()), Signal(operands.high.shape()), Signal()
        m.d.comb += [
            to_end.eq(a.row_bytes - a.column),
            low.eq(Mux(a.column >= 0, 0, Mux(a.column > -word_bytes, -a.column, word_bytes))),
            high.eq(Mux(to_end <= 0, 0, Mux(to_end < word_bytes, to_end, word_bytes))),
            inside.eq(a.read & (a.line >= 0) & (a.line < a.height) & (a.column > -word_bytes) & (to_end > 0)),
        ]
        with m.If(move):
            m.d.sync += [a_valid.eq(slots.valid), b_valid.eq(a_valid)]
            with m.If(slots.valid):
                m.d.sync += a.eq(slots.payload)
            with m.If(a_valid):
                m.d.sync += [
                    control.eq(a.control),
                    last.eq(a.last),
                    read.eq(inside),
                    read_weights.eq(a.read_weights),
                    address.eq(a.base + a.column),
                    weights.eq(a.weights),
                    operands.inside.eq(inside),
                    operands.low.eq(low),
                    operands.high.eq(high),
                    operands.input_zp.eq(a.input_zp),
                    operands.weight_zp.eq(a.weight_zp),
                    operands.unsigned_input.eq(a.unsigned_input),
                ]

        m.d.comb += [
            self.held_by_room.eq(b_valid & control.deliver & ~self.room),
            self.am_request.eq(b_valid & read & ~self.held_by_room),
            self.am_address.eq(address),
            self.held_by_am.eq(self.am_request & ~self.am_grant),
            self.issued.eq(b_valid & ~self.held_by_room & ~self.held_by_am),
            self.wm_enable.eq(self.issued & read_weights),
            self.wm_address.eq(weights),
            self.control.eq(control),
            self.operands.eq(operands),
            self.last.eq(last),
            self.waiting.eq(a_valid | b_valid),
        ]
        return m
