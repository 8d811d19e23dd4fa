"""The element of a loaded word that a lane takes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config

ElementFormat = data.StructLayout({"wide2": 1, "wide4": 1, "wide8": 1, "signed": 1})
"""An element has 2 bytes or more, 4 or more, 8; it is signed."""


class LoadedElement(wiring.Signature):
    """A lane's element of the loaded word at each size, 0 where the word has none.

    Ports:
        bytes8 (8, out), bytes16 (16, out), bytes32 (32, out): elements of 1, 2, 4 bytes.
        bytes64 (vector_bits, out): elements of 8 bytes: the low vector_bits.
    """

    def __init__(self, config: Config):
        super().__init__(
            {"bytes8": Out(8), "bytes16": Out(16), "bytes32": Out(32), "bytes64": Out(config.vector_bits)}
        )


class Elements(wiring.Component):
    """Extends the element of one of four sizes. Combinational.

    Ports:
        loaded (LoadedElement, in): the element at each size.
        format (ElementFormat, in): its size and sign.
        element (vector_bits, out): the element, extended.
    """

    def __init__(self, config: Config):
        super().__init__(
            {
                "loaded": In(LoadedElement(config)),
                "format": In(ElementFormat),
                "element": Out(config.vector_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        wide2, wide4, loaded = self.format.wide2, self.format.wide4, self.loaded
        top = Mux(wide4, loaded.bytes32[-1], Mux(wide2, loaded.bytes16[-1], loaded.bytes8[-1]))
        low = Mux(wide4, loaded.bytes32, Mux(wide2, loaded.bytes16, loaded.bytes8))
        fill = Signal()
        narrow = Cat(
            low[:8],
            Mux(wide2, low[8:16], fill.replicate(8)),
            Mux(wide4, low[16:32], fill.replicate(16)),
            fill.replicate(len(self.element) - 32),
        )
        m.d.comb += [
            fill.eq(self.format.signed & top),
            self.element.eq(Mux(self.format.wide8, loaded.bytes64, narrow)),
        ]
        return m
