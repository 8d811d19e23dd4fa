"""Image rows of the depthwise mode: the vectors of `delay`, 2*`delay`, ... advances ago."""

from amaranth.hdl import Cat, Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from ..config import Config
from .layouts import OPERAND_BITS, group_count


class DelayLine(wiring.Component):
    """A circular memory of `delay` words, each with one vector of every group but the last.

    Cycle 0: `read` at `read_pointer`. Cycle 1: `delayed` has vector g-1 of g*delay advances ago, zero unless
    bit g-1 of `filled` says that there is one; `write` stores it and the new `vector` at `write_pointer` (the
    pointer of cycle 0) for the groups behind. An advance may begin in every cycle if successive pointers
    differ.
    """

    def __init__(self, config: Config):
        self._config = config
        self._groups = group_count(config)
        pointer_bits = bits_for(config.line_pixels - 1)
        vector_bits = OPERAND_BITS * config.columns
        super().__init__(
            {
                "read": In(1),
                "read_pointer": In(pointer_bits),
                "write": In(1),
                "write_pointer": In(pointer_bits),
                "vector": In(vector_bits),
                "filled": In(self._groups - 1),
                "delayed": Out(vector_bits * (self._groups - 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        vector_bits, groups = len(self.vector), self._groups
        if groups == 1:
            return m
        m.submodules.memory = lines = memory.Memory(
            shape=vector_bits * (groups - 1), depth=self._config.line_pixels, init=[]
        )
        write, read = lines.write_port(), lines.read_port()
        m.d.comb += [
            read.en.eq(self.read),
            read.addr.eq(self.read_pointer),
            self.delayed.eq(read.data & Cat(bit.replicate(vector_bits) for bit in self.filled)),
            write.en.eq(self.write),
            write.addr.eq(self.write_pointer),
            write.data.eq(Cat(self.vector, self.delayed)),
        ]
        return m
