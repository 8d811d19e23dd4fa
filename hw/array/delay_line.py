"""Image rows of the depthwise mode: the vectors of `delay`, 2*`delay`, ... advances ago."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from ..memory.words import NO_COLLISION_LOGIC
from .layouts import OPERAND_BITS, by_column, by_lane, group_count


class DelayLine(wiring.Component):
    """Two circular memories with one vector per word and group: one for group 1, one for the groups above it.

    Group 0 is the new `vector`. Group g is group g - 1 of one turn of its memory ago. When `paired`, group 1 is
    `second` of one turn ago, and group g > 1 is group g - 2. An advance takes two cycles, and one may begin in every
    cycle if successive pointers differ.

    Ports:
        read (1, in): cycle 0 of an advance.
        read_pointer_1, read_pointer (0..line_pixels-1, in): cycle 0: the places of group 1, and of the groups above.
        write (1, in): cycle 1: the new vector and its groups are stored.
        write_pointer_1, write_pointer (0..line_pixels-1, in): cycle 1: the pointers of cycle 0.
        paired (1, in): cycle 1: `second` belongs to the advance.
        vector, second (9 W, in): cycle 1: the new vector, and that of the next image row.
        filled (2, in): cycle 1: a bit per memory: it holds vectors of this GO; else its groups are zero.
        delayed (9 W per group, out): cycle 1: the vectors of groups 1, 2, ...
    """

    def __init__(self, config: Config):
        self._config = config
        self._groups = group_count(config)
        pointer_bits = bits_for(config.line_pixels - 1)
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "read": In(1),
                "read_pointer_1": In(pointer_bits),
                "read_pointer": In(pointer_bits),
                "write": In(1),
                "write_pointer_1": In(pointer_bits),
                "write_pointer": In(pointer_bits),
                "paired": In(1),
                "vector": In(vector_bits),
                "second": In(vector_bits),
                "filled": In(2),
                "delayed": Out(vector_bits * (self._groups - 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        vector_bits, groups = len(self.vector), self._groups
        if groups == 1:
            return m
        read_1 = Signal(vector_bits)
        read_others = [Signal(vector_bits, name=f"read_{g}") for g in range(2, groups)]
        first = Mux(self.paired, self.second, self.vector)
        # Group g stores what group g - 1 holds, or g - 2 of a pair; zero where that group's memory is not filled.
        known = [
            (self.vector, 1),
            (read_1, self.filled[0]),
            *((read, self.filled[1]) for read in read_others),
        ]

        def gated(group: int, paired: bool) -> Value:
            vector, filled = known[group]
            return vector & (filled & (self.paired if paired else ~self.paired)).replicate(vector_bits)

        rest = [gated(g - 2, True) | gated(g - 1, False) for g in range(2, groups)]
        pointers = (
            (self.read_pointer_1, self.write_pointer_1, self.filled[0], [first]),
            (self.read_pointer, self.write_pointer, self.filled[1], rest),
        )
        words, outputs = [], []
        for name, (read_pointer, write_pointer, filled, vectors) in zip(
            ("group_1", "groups"), pointers, strict=True
        ):
            if not vectors:
                continue
            lines = memory.Memory(
                shape=vector_bits * len(vectors),
                depth=self._config.line_pixels,
                init=[],
                attrs=NO_COLLISION_LOGIC,
            )
            m.submodules[name] = lines
            write, read = lines.write_port(), lines.read_port()
            m.d.comb += [
                read.en.eq(self.read),
                read.addr.eq(read_pointer),
                write.en.eq(self.write),
                write.addr.eq(write_pointer),
                # Columns of one lane lie side by side, so that a block of the memory has its place beside them.
                write.data.eq(Cat(by_lane(self._config, vector, OPERAND_BITS) for vector in vectors)),
            ]
            stored = [read.data[vector_bits * i :][:vector_bits] for i in range(len(vectors))]
            word = Signal(len(read.data), name=f"word_of_{name}")
            m.d.comb += word.eq(Cat(by_column(self._config, vector, OPERAND_BITS) for vector in stored))
            words.append(word)
            outputs.append(Mux(filled, word, 0))
        m.d.comb += [Cat(read_1, *read_others).eq(Cat(words)), self.delayed.eq(Cat(outputs))]
        return m
