"""Issues slots: makes their memory reads, or waits."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from ..interfaces import WM_ADDRESS_BITS, AmPairRead, WmRead
from ..one_hot import any_of, only_if
from .layouts import OperandFormat, Slot, SlotControl, split_levels


class LocatedSlot(data.StructLayout):
    """A slot with its addresses: of its word, of the pair's `second` word, and of its `weights`."""

    def __init__(self, config: Config):
        super().__init__(
            {
                "control": SlotControl(config),
                "last": 1,
                "read_weights": 1,
                "address": bits_for(config.am_bytes - 1),
                "second": bits_for(config.am_bytes - 1),
                "weights": bits_for(config.wm_words - 1),
                "streamed": 1,
                "split": split_levels(config),
                "format": OperandFormat(config),
            }
        )


class SlotIssue(wiring.Component):
    """Three stages between address generator and memories: A adds up addresses and bounds, B prepares the activation
    memory's read, C makes it.

    A slot is issued when its read is granted, if it delivers a vector, there is `room` for that, and, if its weights
    are streamed, they are there. A word of which no byte is in the image is not read.

    Ports:
        slots (stream of Slot, in): from the address generator.
        am (AmPairRead, out): the activation memory's read port.
        wm (WmRead, out): the weight memory's; read a cycle after `issued`.
        room (1, in): there is a place for another vector. Must not depend on `issued`.
        weights_there (1, in): a streamed word of weights is there. Must not depend on `issued`.
        weights_taken (1, out): it is read.
        issued (1, out): a slot is issued; its data follow two cycles later, its weights three.
        control (SlotControl, out), format (OperandFormat, out): with `issued`: what it does, and how its bytes become
            operands.
        last (1, out): with `issued`: a job has made its last read.
        waiting (1, out): there are slots to issue.
        held_by_am, held_by_room, held_by_weights (1, out): why a slot that is there is not issued.
    """

    def __init__(self, config: Config):
        self._config = config
        super().__init__(
            {
                "slots": In(stream.Signature(Slot(config))),
                "am": Out(AmPairRead(config)),
                "wm": Out(WmRead(config)),
                "room": In(1),
                "weights_there": In(1),
                "weights_taken": Out(1),
                "issued": Out(1),
                "control": Out(SlotControl(config)),
                "format": Out(OperandFormat(config)),
                "last": Out(1),
                "waiting": Out(1),
                "held_by_am": Out(1),
                "held_by_room": Out(1),
                "held_by_weights": Out(1),
            }
        )
        # For the tests' proofs: the slot of stage C, and of the slots before it, the last one first, what the lower
        # parts of the rows do after them.
        self.slot = Signal(LocatedSlot(config), reset_less=True)
        self.history: list[Any] = []

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots, layout = self.slots, LocatedSlot(self._config)
        a_valid, a = Signal(), Signal(Slot(self._config), reset_less=True)
        b_valid, b = Signal(), Signal(layout, reset_less=True)
        c_valid, c = Signal(), self.slot
        c_reads = Signal()  # stage C has a slot, and it reads
        spare_valid, spare, following = Signal(), Signal(layout, reset_less=True), Signal(layout)

        m.d.comb += slots.ready.eq(~spare_valid)
        with m.If(slots.ready):
            m.d.sync += [a_valid.eq(slots.valid), a.eq(slots.payload)]
            m.d.sync += [b_valid.eq(a_valid), b.eq(self._locate(m, a))]

        # Off the critical path: a grant arrives late. The spare register keeps it from all that is before stage C.
        with m.If(slots.ready):
            m.d.sync += spare.eq(b)
        m.d.comb += following.eq(Mux(spare_valid, spare, b))
        with m.If(self.am.prepare):
            m.d.sync += [
                c_valid.eq(b_valid | spare_valid),
                c.eq(following),
                c_reads.eq(
                    (b_valid | spare_valid) & (following.format.inside | following.format.second_inside)
                ),
                spare_valid.eq(0),
            ]
        with m.Elif(slots.ready):
            m.d.sync += spare_valid.eq(b_valid)

        held = Signal()
        no_room, no_weights = c.control.deliver & ~self.room, c.streamed & ~self.weights_there
        m.d.comb += [
            held.eq(no_room | no_weights),
            self.held_by_room.eq(c_valid & no_room),
            self.held_by_weights.eq(c_valid & no_weights & ~no_room),
            self.am.prepare.eq(~c_valid | self.issued),
            self.am.address.eq(following.address),
            self.am.paired.eq(following.control.paired),
            self.am.second.eq(following.second),
            self.am.request.eq(c_reads & ~held),
            self.held_by_am.eq(self.am.request & ~self.am.grant),
            self.issued.eq(c_valid & ~held & ~self.held_by_am),
            self.weights_taken.eq(self.issued & c.streamed),
            self.control.eq(c.control),
            self.format.eq(c.format),
            self.last.eq(c.last & ~c.split.any()),
            self.waiting.eq(a_valid | b_valid | c_valid),
        ]
        m.d.sync += [self.wm.enable.eq(self.issued & c.read_weights), self.wm.address.eq(c.weights)]
        if split_levels(self._config):
            self._read_for_parts(m, c)
        return m

    def _read_for_parts(self, m: Module, slot: data.View) -> None:
        """Part q of divided rows does what part 0 did q * `apart` slots ago, with weights of a later step."""
        config = self._config
        banks, levels = config.most_row_parts, split_levels(config)
        apart = config.divided_rows // banks
        past = data.StructLayout({"split": levels, "weights": len(slot.weights), "last": 1})
        history = [Signal(past, name=f"slot_{age}") for age in range(1, (banks - 1) * apart + 1)]
        self.history = history
        with m.If(self.issued):
            m.d.sync += [
                history[0].split.eq(slot.split),
                history[0].weights.eq(slot.weights),
                history[0].last.eq(slot.last & slot.split.any()),
            ]
            m.d.sync += [older.eq(newer) for newer, older in zip(history, history[1:], strict=False)]
        # The job's last read is that of its last part.
        with m.If(history[-1].last):
            m.d.comb += self.last.eq(1)
        injects, addresses = [], []
        for part in range(1, banks):
            then = history[part * apart - 1]
            # With fewer parts than banks only some of the rows take weights of their own.
            steps = {level: divmod(part << (level + 1), banks) for level in range(levels)}
            used = [(then.split[level], step) for level, (step, rest) in steps.items() if not rest]
            injects.append(Cat(flag for flag, _ in used).any())
            offset = any_of(only_if(flag, Const(step * config.columns)) for flag, step in used)
            addresses.append(then.weights + offset)
        width = WM_ADDRESS_BITS
        m.d.comb += self.control.inject.eq(Cat(injects))
        m.d.sync += self.wm.part_enable.eq(Cat(injects) & self.issued.replicate(banks - 1))
        m.d.sync += [
            self.wm.part_address.word_select(number, width).eq(address)
            for number, address in enumerate(addresses)
        ]

    def _locate(self, m: Module, slot: data.View) -> data.View:
        """Stage A: addresses, and which bytes of the word are in the image."""
        word_bytes, located = self._config.word_bytes, Signal(LocatedSlot(self._config))
        to_end, across = Signal(slot.column.shape()), Signal()
        m.d.comb += [
            to_end.eq(slot.row_bytes - slot.column),
            across.eq(slot.read & (slot.column > -word_bytes) & (to_end > 0)),
            located.control.eq(slot.control),
            located.last.eq(slot.last),
            located.read_weights.eq(slot.read_weights),
            located.address.eq(slot.base + slot.column),
            located.second.eq(slot.base + slot.column + slot.pitch),
            located.weights.eq(slot.weights),
            located.streamed.eq(slot.streamed & slot.read_weights),
            located.split.eq(slot.split),
            located.format.inside.eq(across & (slot.line >= 0) & (slot.line < slot.height)),
            located.format.second_inside.eq(
                across & slot.control.paired & (slot.line >= -1) & (slot.line + 1 < slot.height)
            ),
            # The number of bytes before the image row, and of bytes before its end; both are within 0..W.
            located.format.low.eq(
                Mux(slot.column >= 0, 0, Mux(slot.column > -word_bytes, -slot.column, word_bytes))
            ),
            located.format.high.eq(Mux(to_end <= 0, 0, Mux(to_end < word_bytes, to_end, word_bytes))),
            located.format.input_zp.eq(slot.input_zp),
            located.format.weight_zp.eq(slot.weight_zp),
            located.format.unsigned_input.eq(slot.unsigned_input),
        ]
        return located
