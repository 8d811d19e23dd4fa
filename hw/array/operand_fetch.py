"""Makes operands of memory words: zero points, masks, delay line."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .delay_line import DelayLine
from .layouts import OPERAND_BITS, OperandFormat, SlotControl, group_count

LATENCY = 5
"""Cycles from an issued slot to its operands."""


class OperandFetch(wiring.Component):
    """Follows issued slots through the memories' latency. Cycle 0 is that of `issued`.

    Ports:
        issued (1, in): a slot is issued; its reads of the activation memory are made in this cycle.
        control (SlotControl, in), format (OperandFormat, in): what it does, and how its bytes become operands.
        am_data, am_second_data (8 W, in): cycle 2: the words read of the activation memory.
        wm_data (8 W, in): cycle 3: the word read of the weight memory, in cycle 1.
        part_data (8 W per bank but one, in): cycle 3: the words read for lower parts of the rows.
        valid (1, out), out_control (SlotControl, out): cycle 5: the slot with its operands is here.
        vectors (9 W per group, out): cycle 5: vector 0 is the word read, its bytes outside the image zero. The others
            are the delay line's in a depthwise slot that streams. All are zero in one that does not.
        weights (9 W, out): cycle 5: the weights.
        part_weights (8 W per bank but one, out): cycle 5: those of lower parts of the rows, whose zero point is 0.
        waiting (1, out): a slot is on its way.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "issued": In(1),
                "control": In(SlotControl(config)),
                "format": In(OperandFormat(config)),
                "am_data": In(8 * config.columns),
                "am_second_data": In(8 * config.columns),
                "wm_data": In(8 * config.columns),
                "part_data": In(8 * config.columns * (config.most_row_parts - 1)),
                "valid": Out(1),
                "out_control": Out(SlotControl(config)),
                "vectors": Out(vector_bits * group_count(config)),
                "weights": Out(vector_bits),
                "part_weights": Out(8 * config.columns * (config.most_row_parts - 1)),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        valid, control, formats = [self.issued], [self.control], [self.format]
        for cycle in range(1, LATENCY + 1):
            valid.append(Signal(name=f"valid_{cycle}"))
            control.append(Signal(SlotControl(self._config), reset_less=True, name=f"control_{cycle}"))
            m.d.sync += [valid[cycle].eq(valid[cycle - 1]), control[cycle].eq(control[cycle - 1])]
        for cycle in range(1, 4):
            formats.append(Signal(OperandFormat(self._config), reset_less=True, name=f"format_{cycle}"))
            m.d.sync += formats[cycle].eq(formats[cycle - 1])

        # Cycle 2 to 3: the activation memory's words are registered, and the masks are made of the bounds.
        am_data, second_data = (
            Signal.like(self.am_data, reset_less=True, name=n) for n in ("first_3", "second_3")
        )
        m.d.sync += [am_data.eq(self.am_data), second_data.eq(self.am_second_data)]
        within = [(formats[2].low <= j) & (formats[2].high > j) for j in range(self._config.columns)]
        mask, second_mask = (
            Signal(len(within), reset_less=True, name=n) for n in ("mask_3", "second_mask_3")
        )
        m.d.sync += [
            mask.eq(Cat(byte & formats[2].inside for byte in within)),
            second_mask.eq(Cat(byte & formats[2].second_inside for byte in within)),
        ]

        # Cycle 3 to 4: bytes become operands. Cycle 4 to 5: the delay line adds its vectors.
        vector = self._operands(m, am_data, mask, formats[3], "vector_4")
        second = self._operands(m, second_data, second_mask, formats[3], "second_4")
        weights = self._weights(m, formats[3])
        m.submodules.delay_line = delay_line = DelayLine(self._config)
        m.d.comb += [
            delay_line.read.eq(valid[3] & control[3].depthwise),
            delay_line.read_pointer_1.eq(control[3].pointer_1),
            delay_line.read_pointer.eq(control[3].pointer),
            delay_line.write.eq(valid[4] & control[4].stream),
            delay_line.write_pointer_1.eq(control[4].pointer_1),
            delay_line.write_pointer.eq(control[4].pointer),
            delay_line.paired.eq(control[4].paired),
            delay_line.vector.eq(vector),
            delay_line.second.eq(second),
            delay_line.filled.eq(control[4].filled),
        ]
        vectors_5, weights_5 = (
            Signal.like(self.vectors, reset_less=True),
            Signal.like(weights, reset_less=True),
        )
        if self._config.most_row_parts > 1:
            part_4 = Signal.like(self.part_data, reset_less=True)
            part_5 = Signal.like(self.part_data, reset_less=True)
            m.d.sync += [part_4.eq(self.part_data), part_5.eq(part_4)]
            m.d.comb += self.part_weights.eq(part_5)
        m.d.sync += [weights_5.eq(weights), vectors_5.eq(Cat(vector, delay_line.delayed))]
        m.d.comb += [
            self.valid.eq(valid[LATENCY]),
            self.out_control.eq(control[LATENCY]),
            self.weights.eq(weights_5),
            self.vectors.eq(vectors_5),
            self.waiting.eq(Cat(valid[1:]).any()),
        ]
        return m

    def _operands(self, m: Module, word: Signal, mask: Signal, form: data.View, name: str) -> Signal:
        """The word's bytes minus their zero point, zero where `mask` is low.

        The registers have no enable and wait for nothing: so a byte that is masked out is its register's reset.
        """
        vector = Signal(OPERAND_BITS * self._config.columns, reset_less=True, name=name)
        for j in range(self._config.columns):
            byte, operand = word.word_select(j, 8), Signal(signed(OPERAND_BITS))
            signed_byte = Cat(byte, byte[7] & ~form.unsigned_input).as_signed()
            m.d.comb += operand.eq(signed_byte - form.input_zp)
            m.d.sync += vector.word_select(j, OPERAND_BITS).eq(Mux(mask[j], operand, 0))
        return vector

    def _weights(self, m: Module, form: data.View) -> Signal:
        """The weights minus their zero point."""
        weights = Signal(OPERAND_BITS * self._config.columns, reset_less=True, name="weights_4")
        for j in range(self._config.columns):
            operand = Signal(signed(OPERAND_BITS))
            m.d.comb += operand.eq(self.wm_data.word_select(j, 8).as_signed() - form.weight_zp)
            m.d.sync += weights.word_select(j, OPERAND_BITS).eq(operand)
        return weights
