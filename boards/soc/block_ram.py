"""RAM of one access a cycle in block RAM, for parts that have enough of it."""

from amaranth.hdl import Module
from amaranth.lib import wiring

from tosaic.hw.memory.words import WordMemory

from .ram_ports import ram_ports


class BlockRam(wiring.Component):
    """`depth` words of `width` bytes, with the ports of ram_ports.py."""

    def __init__(self, width: int, depth: int):
        self.width, self.depth = width, depth
        super().__init__(ram_ports(width, depth))

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
