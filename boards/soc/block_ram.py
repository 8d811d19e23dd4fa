"""RAM of one access a cycle in block RAM, for parts that have enough of it."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tosaic.hw.memory.words import WordMemory


class BlockRam(wiring.Component):
    """`depth` words of `width` bytes; ports as of SinglePortRam."""

    def __init__(self, width: int, depth: int):
        self.width, self.depth = width, depth
        super().__init__(
            {
                "enable": In(1),
                "write": In(1),
                "address": In(range(depth)),
                "write_data": In(8 * width),
                "mask": In(width),
                "data": Out(8 * width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.words = words = WordMemory(8 * self.width, self.depth, granularity=8)
        with m.If(self.enable & self.write):
            m.d.comb += words.write_enable.eq(self.mask)
        m.d.comb += [
            words.read_enable.eq(self.enable & ~self.write),
            words.read_address.eq(self.address),
            words.write_address.eq(self.address),
            words.write_data.eq(self.write_data),
            self.data.eq(words.read_data),
        ]
        return m
