"""The element of a loaded word that a lane takes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config


class Elements(wiring.Component):
    """Extends the element of one of four sizes.

    - `bytes8`, `bytes16`, `bytes32`, `bytes64`: it at each size; of 8 bytes the low vector_bits.
    - `wide2`, `wide4`, `wide8`: it has that many bytes, or more. `signed`: it is not unsigned.
    - `element`: it, extended to vector_bits.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "bytes8": In(8),
                "bytes16": In(16),
                "bytes32": In(32),
                "bytes64": In(config.vector_bits),
                "wide2": In(1),
                "wide4": In(1),
                "wide8": In(1),
                "signed": In(1),
                "element": Out(config.vector_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wide2, wide4, wide8 = self.wide2, self.wide4, self.wide8
        bits = len(self.element)
        top = Mux(wide4, self.bytes32[-1], Mux(wide2, self.bytes16[-1], self.bytes8[-1]))
        fill = Signal()
        low = Mux(wide4, self.bytes32, Mux(wide2, self.bytes16, self.bytes8))
        m.d.comb += [
            fill.eq(self.signed & top),
            self.element.eq(
                Mux(
                    wide8,
                    self.bytes64,
                    Cat(
                        low[:8],
                        Mux(wide2, low[8:16], fill.replicate(8)),
                        Mux(wide4, low[16:32], fill.replicate(16)),
                        fill.replicate(bits - 32),
                    ),
                )
            ),
        ]
        return m


__all__ = ["Elements"]
