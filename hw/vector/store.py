"""Packs the lanes' results into bytes and writes them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import AmWrite
from ..isa import Element
from .extend import sign_extend


class Store(wiring.Component):
    """- `pack`: the `results` (W times vector_bits) are to be stored. The write is prepared in the next cycle.
    - `element`: type of the store stream; `address` and `last` (dimension 0 at its last turn) its address generator,
      which must step with `step`.
    - `configure`: `lanes` and `tail_lanes` of a GO, held from the next cycle on; at least two cycles before a `pack`.
    - `write`: the activation memory's write port.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "configure": In(1),
                "lanes": In(6),
                "tail_lanes": In(6),
                "pack": In(1),
                "results": In(config.vector_bits * config.columns),
                "element": In(Element),
                "address": In(24),
                "last": In(1),
                "step": Out(1),
                "write": Out(AmWrite(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits = self.config.columns, self.config.vector_bits
        configured = Signal()
        lane_counts = {kind: Signal(6, name=f"{kind}_lanes") for kind in ("full", "tail")}
        masks = {kind: Signal(width, name=f"{kind}_mask") for kind in ("full", "tail")}
        m.d.sync += configured.eq(self.configure)
        with m.If(self.configure):
            m.d.sync += [lane_counts["full"].eq(self.lanes), lane_counts["tail"].eq(self.tail_lanes)]
        with m.If(configured):
            for kind in ("full", "tail"):
                with m.Switch(self.element):
                    for size, elements in SIZES.items():
                        with m.Case(*elements):
                            mask = Cat(byte // size < lane_counts[kind] for byte in range(width))
                            m.d.sync += masks[kind].eq(mask)

        packed = Signal(8 * width, reset_less=True)
        requested = Signal()
        m.d.sync += requested.eq(self.pack)
        with m.If(self.pack), m.Switch(self.element):
            for size, elements in SIZES.items():
                with m.Case(*elements):
                    lanes = (self.results[bits * i :][:bits] for i in range(width // size))
                    stored = (
                        lane[: 8 * size] if 8 * size <= bits else sign_extend(lane, 8 * size)
                        for lane in lanes
                    )
                    m.d.sync += packed.eq(Cat(stored))
        m.d.sync += self.write.request.eq(requested)
        m.d.comb += [
            self.step.eq(requested),
            self.write.prepare.eq(1),
            self.write.address.eq(self.address),
            self.write.data.eq(packed),
            self.write.mask.eq(Mux(self.last, masks["tail"], masks["full"])),
        ]
        return m


SIZES = {size: [element.value for element in Element if element.bytes == size] for size in (1, 2, 4, 8)}
"""Element types by their bytes."""

__all__ = ["Store"]
