"""The weight memory."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from ..config import Config
from ..interfaces import WmRead, WmWrite

NO_COLLISION_LOGIC = {"no_rw_check": 1}
"""Attribute of memories whose users do not care what a read returns that meets a write of the same byte. Else
Yosys adds registers and a bypass to every block RAM (ECP5, W = 8: 3,300 LUTs in the activation memory)."""


class WeightMemory(wiring.Component):
    """`wm_words` words of W bytes, one read and one write per cycle, both always taken.

    Ports:
        `read`: data is valid exactly WM_READ_LATENCY cycles (memory register, output register) after
            `enable`.
        `write`: a read enabled later sees it; a read of the same word in the same cycle returns the old word.

    Word addresses wrap at `wm_words`.
    """

    def __init__(self, config: Config):
        if config.wm_words < 2:
            raise ValueError(
                f"wm_bytes must hold at least 2 words of {config.columns} bytes, not {config.wm_bytes}"
            )
        self.config = config
        super().__init__({"read": In(WmRead(config)), "write": In(WmWrite(config))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = 8 * self.config.word_bytes
        m.submodules.words = words = memory.Memory(
            shape=unsigned(width), depth=self.config.wm_words, init=[], attrs=NO_COLLISION_LOGIC
        )
        write, read = words.write_port(), words.read_port()
        pending = Signal()
        output = Signal(width)
        m.d.comb += [
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            read.en.eq(self.read.enable),
            read.addr.eq(self.read.address),
            self.read.data.eq(output),
        ]
        m.d.sync += pending.eq(self.read.enable)
        with m.If(pending):
            m.d.sync += output.eq(read.data)
        return m
