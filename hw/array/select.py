"""The operands of every row: bytes of the row's own word, or the vector of its delay group."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from ..one_hot import any_of, only_if
from .layouts import OPERAND_BITS, group_count, possible_groups


class OperandSelect(wiring.Component):
    """One cycle from a slot to W operands for every row.

    Output stationary: row i takes vector 0 of the slot i after a `start`, and in this slot and the W - 1 after it all
    its operands are one element of that word after the other, then zeros. Element k of vector 0 comes to all rows k
    slots late, so that a row has only to choose among W elements.
    Depthwise: every row takes the vector of its group, element c for column c. The first such slot comes when all
    rows are through with their words.

    valid, depthwise, start, vectors: the slot. shift: it is one that moves `start` down the rows.
    set_group: bit per row, it gets `group`, in order of rows.
    operands: W 9-bit operands per row, in the cycle after the slot.
    """

    def __init__(self, config: Config):
        self._config = config
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "valid": In(1),
                "depthwise": In(1),
                "shift": In(1),
                "start": In(1),
                "vectors": In(vector_bits * group_count(config)),
                "set_group": In(config.rows),
                "group": In(bits_for(group_count(config) - 1)),
                "operands": Out(vector_bits * config.rows),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        rows, columns = config.rows, config.columns
        vector_bits = OPERAND_BITS * columns
        groups = [self.vectors.word_select(g, vector_bits) for g in range(group_count(config))]

        # Output stationary: started[d] is the `start` of d slots ago, elements[k] the element of k slots ago.
        started = [self.start]
        for late in range(1, rows + columns - 1):
            register = Signal(name=f"started_{late}")
            with m.If(self.shift):
                m.d.sync += register.eq(started[-1])
            started.append(register)
        elements = []
        for index in range(columns):
            element: Value = groups[0].word_select(index, OPERAND_BITS)
            for late in range(1, index + 1):
                register = Signal(OPERAND_BITS, name=f"element_{index}_{late}", reset_less=True)
                with m.If(self.shift):
                    m.d.sync += register.eq(element)
                element = register
            elements.append(element)

        # Depthwise. Rows that share their far group whatever `group_rows` is, share what chooses it.
        far: dict[tuple[tuple[int, int], ...], Signal] = {}
        for row in range(rows):
            group = Signal(range(group_count(config)), name=f"group_{row}", reset_less=True)
            with m.If(self.set_group[row]):
                m.d.sync += group.eq(self.group)

            def chosen(index: int, group: Signal = group) -> Value:
                return only_if(self.depthwise & (group == index), groups[index])

            near = [index for index in possible_groups(config, row) if index < 2]
            sizes = tuple(
                (size, min(row // size, config.line_groups - 1))
                for size in range(1, rows + 1)
                if min(row // size, config.line_groups - 1) >= 2
            )
            parts = [chosen(index) for index in near]
            if sizes:
                if sizes not in far:
                    far[sizes] = Signal(vector_bits, name=f"far_{row}")
                    m.d.comb += far[sizes].eq(any_of(chosen(index) for index in {g for _, g in sizes}))
                parts.append(far[sizes])
            element = Signal(OPERAND_BITS, name=f"element_{row}")
            m.d.comb += element.eq(
                any_of(only_if(started[row + index], elements[index]) for index in range(columns))
            )
            operands = Signal(vector_bits, name=f"operands_{row}", reset_less=True)
            with m.If(self.valid):
                m.d.sync += operands.eq(any_of([*parts, Cat(element for _ in range(columns))]))
            m.d.comb += self.operands.word_select(row, vector_bits).eq(operands)
        return m
