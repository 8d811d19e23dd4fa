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

    Ports:
        valid, depthwise (1, in): a slot, and its mode.
        shift (1, in): it is one that moves `start` down the rows.
        start (1, in): vector 0 is a new word.
        vectors (9 W per group, in): the vectors of the slot.
        set_group (rows, in): a bit per row: its group is `group` from now on. Rows are set in order: with row 0 the
            others lose theirs, and have zeros until they are set.
        group (0..groups-1, in): the group.
        operands (9 W per row, out): the operands, in the cycle after the slot.
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns, vector_bits = self._config.columns, OPERAND_BITS * self._config.columns
        started, elements = self._words(m)
        shared: dict[tuple[tuple[int, int], ...], Signal] = {}
        for row in range(self._config.rows):
            parts = self._group(m, row, shared)
            element = Signal(OPERAND_BITS, name=f"element_{row}")
            m.d.comb += element.eq(
                any_of(only_if(started[row + index], elements[index]) for index in range(columns))
            )
            operands = Signal(vector_bits, name=f"operands_{row}", reset_less=True)
            with m.If(self.valid):
                m.d.sync += operands.eq(any_of([*parts, Cat(element for _ in range(columns))]))
            m.d.comb += self.operands.word_select(row, vector_bits).eq(operands)
        return m

    def _words(self, m: Module) -> tuple[list[Signal], list[Value]]:
        """Output stationary: the `start` of d slots ago for each d, and element k of k slots ago for each k."""
        rows, columns = self._config.rows, self._config.columns
        started = [self.start]
        for late in range(1, rows + columns - 1):
            register = Signal(name=f"started_{late}")
            with m.If(self.shift):
                m.d.sync += register.eq(started[-1])
            started.append(register)
        elements = []
        for index in range(columns):
            element: Value = self.vectors[: OPERAND_BITS * columns].word_select(index, OPERAND_BITS)
            for late in range(1, index + 1):
                register = Signal(OPERAND_BITS, name=f"element_{index}_{late}", reset_less=True)
                with m.If(self.shift):
                    m.d.sync += register.eq(element)
                element = register
            elements.append(element)
        return started, elements

    def _group(self, m: Module, row: int, shared: dict[tuple[tuple[int, int], ...], Signal]) -> list[Value]:
        """Depthwise: the vector of the row's group, as parts of which one is not zero.

        Rows that have the same far groups for every `group_rows` share what chooses among these. The taps of a kernel
        may end between two of them: the row without a tap, which has no group, takes nothing.
        """
        config, vector_bits = self._config, OPERAND_BITS * self._config.columns
        none = group_count(config)
        group = Signal(range(none + 1), name=f"group_{row}", reset_less=True)
        with m.If(self.set_group[row]):
            m.d.sync += group.eq(self.group)
        with m.Elif(self.set_group[0]):
            m.d.sync += group.eq(none)

        def chosen(index: int) -> Value:
            return only_if(self.depthwise & (group == index), self.vectors.word_select(index, vector_bits))

        parts = [chosen(index) for index in possible_groups(config, row) if index < 2]
        groups = [(size, min(row // size, config.line_groups - 1)) for size in range(1, config.rows + 1)]
        far = tuple((size, index) for size, index in groups if index >= 2)
        if far:
            if far not in shared:
                shared[far] = Signal(vector_bits, name=f"far_{row}")
                m.d.comb += shared[far].eq(any_of(chosen(index) for index in {index for _, index in far}))
                parts.append(shared[far])
            else:
                parts.append(only_if(group != none, shared[far]))
        return parts
