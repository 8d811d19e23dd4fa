"""A two-entry stream buffer that cuts the combinational path of `ready`."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class SkidBuffer(wiring.Component):
    """Passes a stream on one cycle later at full rate; `output` and `input.ready` come from registers."""

    def __init__(self, shape: Any):
        super().__init__({"input": In(stream.Signature(shape)), "output": Out(stream.Signature(shape))})
        # The state, for the tests' proofs.
        self.spare = Signal.like(self.input.payload, reset_less=True)
        self.spare_valid = Signal()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spare, spare_valid = self.spare, self.spare_valid
        payload = Signal.like(self.output.payload, reset_less=True)
        valid = Signal()
        moves = ~valid | self.output.ready
        m.d.comb += [
            self.input.ready.eq(~spare_valid),
            self.output.payload.eq(payload),
            self.output.valid.eq(valid),
        ]
        # Off the critical path: `output.ready` may be late, so what comes is kept before it is known whether it must.
        with m.If(~spare_valid):
            m.d.sync += spare.eq(self.input.payload)
        with m.If(moves):
            m.d.sync += [
                payload.eq(Mux(spare_valid, spare, self.input.payload)),
                valid.eq(spare_valid | self.input.valid),
                spare_valid.eq(0),
            ]
        with m.Elif(self.input.valid):
            m.d.sync += spare_valid.eq(1)
        return m
