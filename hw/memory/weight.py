"""The weight memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ..config import Config
from ..interfaces import WmRead, WmWrite
from .words import WordMemory


class WeightMemory(wiring.Component):
    """`wm_words` words of W bytes, one read and one write per cycle, both always taken.

    Word addresses wrap at `wm_words`.

    Ports:
        read (WmRead, in): data is valid exactly WM_READ_LATENCY cycles (memory and output register) after `enable`.
        write (WmWrite, in): a read enabled later sees it; a read of the word in the same cycle returns the old one.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__({"read": In(WmRead(config)), "write": In(WmWrite(config))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = 8 * self.config.word_bytes
        m.submodules.words = words = WordMemory(width, self.config.wm_words)
        pending = Signal()
        output = Signal(width)
        m.d.comb += [
            words.write_enable.eq(self.write.enable),
            words.write_address.eq(self.write.address),
            words.write_data.eq(self.write.data),
            words.read_enable.eq(self.read.enable),
            words.read_address.eq(self.read.address),
            self.read.data.eq(output),
        ]
        m.d.sync += pending.eq(self.read.enable)
        with m.If(pending):
            m.d.sync += output.eq(words.read_data)
        return m
