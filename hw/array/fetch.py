"""From memory words to operands: zero points, masks, delay line."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from .delay_line import DelayLine
from .layouts import OPERAND_BITS, Control, Operands, group_count

LATENCY = 5
"""Cycles from an issued slot to its operands."""


class Fetch(wiring.Component):
    """Follows issued slots through the memories' latency.

    issued, control, operands: a slot whose reads of the activation memory are made in this cycle, those of the weight
        memory in the next one.
    am_data, am_second_data, wm_data: what was read two cycles ago.
    valid: a slot with its operands is here (LATENCY cycles after `issued`), doing `out_control`.
    vectors: group_count vectors of W 9-bit operands. Vector 0: the word read (masked bytes are zero). The
        others, when `out_control.depthwise`: the delay line's. All zero for a depthwise slot that does not
        stream.
    weights: W 9-bit weights.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "issued": In(1),
                "control": In(Control(config)),
                "operands": In(Operands(config)),
                "am_data": In(8 * config.columns),
                "am_second_data": In(8 * config.columns),
                "wm_data": In(8 * config.columns),
                "valid": Out(1),
                "out_control": Out(Control(config)),
                "vectors": Out(vector_bits * group_count(config)),
                "weights": Out(vector_bits),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, columns = self._config, self._config.columns
        vector_bits = OPERAND_BITS * columns
        m.submodules.delay_line = delay_line = DelayLine(config)

        # Cycle 1: the weights are read. The activation memory's data have a register more.
        valid_1 = Signal()
        control_1 = Signal(Control(config), reset_less=True)
        operands_1 = Signal(Operands(config), reset_less=True)
        am_data, am_second_data = (
            Signal(8 * columns, reset_less=True, name=name) for name in ("am_data_3", "am_second_data_3")
        )
        m.d.sync += [
            valid_1.eq(self.issued),
            control_1.eq(self.control),
            operands_1.eq(self.operands),
            am_data.eq(self.am_data),
            am_second_data.eq(self.am_second_data),
        ]

        # Cycles 2 and 3; the mask is made of the bounds on the way.
        valid_2, valid_3 = Signal(), Signal()
        control_2, control_3, control_4, control_5 = (
            Signal(Control(config), reset_less=True, name=f"control_{n}") for n in (2, 3, 4, 5)
        )
        operands_2, operands_3 = (
            Signal(Operands(config), reset_less=True, name=f"operands_{n}") for n in (2, 3)
        )
        mask_3, second_mask_3 = Signal(columns, reset_less=True), Signal(columns, reset_less=True)
        within = [(operands_2.low <= j) & (operands_2.high > j) for j in range(columns)]
        m.d.sync += [
            valid_2.eq(valid_1),
            control_2.eq(control_1),
            operands_2.eq(operands_1),
            valid_3.eq(valid_2),
            control_3.eq(control_2),
            operands_3.eq(operands_2),
            mask_3.eq(Cat(byte & operands_2.inside for byte in within)),
            second_mask_3.eq(Cat(byte & operands_2.second_inside for byte in within)),
        ]
        m.d.comb += [
            delay_line.read.eq(valid_3 & control_3.depthwise),
            delay_line.read_pointer_1.eq(control_3.pointer_1),
            delay_line.read_pointer.eq(control_3.pointer),
        ]

        # Cycle 4: operands.
        valid_4 = Signal()
        vector_4, second_4, weights_4 = (
            Signal(vector_bits, reset_less=True, name=name) for name in ("vector_4", "second_4", "weights_4")
        )
        # No register of data waits for `valid`: so a mask is a register's reset.
        m.d.sync += [valid_4.eq(valid_3), control_4.eq(control_3)]
        for j in range(columns):
            place = slice(OPERAND_BITS * j, OPERAND_BITS * (j + 1))
            for data, mask, vector in (
                (am_data, mask_3, vector_4),
                (am_second_data, second_mask_3, second_4),
            ):
                byte, operand = data.word_select(j, 8), Signal(signed(OPERAND_BITS))
                signed_byte = Cat(byte, byte[7] & ~operands_3.unsigned_input).as_signed()
                m.d.comb += operand.eq(signed_byte - operands_3.input_zp)
                m.d.sync += vector[place].eq(Mux(mask[j], operand, 0))
            weight, weight_operand = self.wm_data.word_select(j, 8), Signal(signed(OPERAND_BITS))
            m.d.comb += weight_operand.eq(weight.as_signed() - operands_3.weight_zp)
            m.d.sync += weights_4[place].eq(weight_operand)
        m.d.comb += [
            delay_line.write.eq(valid_4 & control_4.stream),
            delay_line.write_pointer_1.eq(control_4.pointer_1),
            delay_line.write_pointer.eq(control_4.pointer),
            delay_line.paired.eq(control_4.paired),
            delay_line.vector.eq(vector_4),
            delay_line.second.eq(second_4),
            delay_line.filled.eq(control_4.filled),
        ]

        # Cycle 5: to the grid.
        vectors_5 = Signal(len(self.vectors), reset_less=True)
        weights_5 = Signal(vector_bits, reset_less=True)
        m.d.sync += [
            self.valid.eq(valid_4),
            control_5.eq(control_4),
            weights_5.eq(weights_4),
            vectors_5.eq(Cat(vector_4, delay_line.delayed)),
        ]
        m.d.comb += [
            self.out_control.eq(control_5),
            self.weights.eq(weights_5),
            self.vectors.eq(vectors_5),
            self.waiting.eq(valid_1 | valid_2 | valid_3 | valid_4 | self.valid),
        ]
        return m
