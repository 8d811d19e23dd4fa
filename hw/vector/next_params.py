"""Parameters that follow those of the last VECTOR_PARAM, fetched between two batches of a GO."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..constants import BIAS_BYTES, NARROW_BIAS_BYTES, SCALE_BYTES
from ..isa import Opcode, layout
from .layouts import ParameterBlock


class NextParams(wiring.Component):
    """Remembers where parameters end, and has the next ones fetched when the loop counter pauses.

    Ports:
        set (1, in), params (VECTOR_PARAM, in): a VECTOR_PARAM is taken.
        paused (1, in): the loop counter is between two batches.
        quiet (1, in): nothing of the batch before is under way, and no fetch is.
        start (1, out): fetch `block`.
        block (ParameterBlock, out): as many parameters, and of the same kinds, as the last ones, which they follow in
            memory.
        resume (1, out): they are there, the next batch may begin.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "set": In(1),
                "params": In(layout(Opcode.VECTOR_PARAM)),
                "paused": In(1),
                "quiet": In(1),
                "start": Out(1),
                "block": Out(ParameterBlock),
                "resume": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        columns = self.config.columns
        started = Signal()
        size = Signal(range(columns * (BIAS_BYTES + SCALE_BYTES) + 1))
        last = Signal(ParameterBlock)
        m.d.comb += [
            size.eq(
                Mux(last.bias, columns * Mux(last.narrow, NARROW_BIAS_BYTES, BIAS_BYTES), 0)
                + Mux(last.scale, columns * SCALE_BYTES, 0)
            ),
            self.block.address.eq(last.address + size),
            self.block.bias.eq(last.bias),
            self.block.scale.eq(last.scale),
            self.block.narrow.eq(last.narrow),
            self.start.eq(self.paused & self.quiet & ~started),
            self.resume.eq(self.paused & self.quiet & started),
        ]
        with m.If(self.set):
            m.d.sync += [
                last.address.eq(self.params.address),
                last.bias.eq(self.params.bias),
                last.scale.eq(self.params.scale),
                last.narrow.eq(self.params.narrow),
            ]
        with m.Elif(self.start):
            m.d.sync += [last.address.eq(self.block.address), started.eq(1)]
        with m.Elif(self.resume):
            m.d.sync += started.eq(0)
        return m
