"""The elements of a loaded word, spread over the lanes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config

ElementFormat = data.StructLayout({"wide2": 1, "wide4": 1, "wide8": 1, "signed": 1})
"""An element has 2 bytes or more, 4 or more, 8; it is signed."""


class Elements(wiring.Component):
    """Extends the elements of the first `lanes` lanes, each as if the word were that of its lane's beat. Combinational.

    Lanes whose wide elements lie in the same place of a word share them; the narrower the elements, the fewer do.

    Ports:
        word (8 W, in): the loaded word.
        format (ElementFormat, in): size and sign of its elements.
        elements (lanes x vector_bits, out): the lanes' elements, extended.
    """

    def __init__(self, config: Config, lanes: int):
        self.config, self.lanes = config, lanes
        super().__init__(
            {
                "word": In(8 * config.columns),
                "format": In(ElementFormat),
                "elements": Out(data.ArrayLayout(config.vector_bits, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, bits = self.config.columns, self.config.vector_bits
        chosen = [self.word[64 * i :][:bits] for i in range(width // 8)]
        wider = {1: self.format.wide2, 2: self.format.wide4, 4: self.format.wide8}
        for size in (4, 2, 1):
            following = []
            for i in range(min(width // size, self.lanes)):
                element = self.word[8 * size * i :][: 8 * size]
                fill = Signal(name=f"fill_{size}_{i}")
                extended = Cat(element, fill.replicate(bits - 8 * size))
                m.d.comb += fill.eq(self.format.signed & element[-1])
                target = Signal(bits, name=f"element_{size}_{i}")
                m.d.comb += target.eq(
                    Mux(wider[size], chosen[i % len(chosen)], extended) if chosen else extended
                )
                following.append(target)
            chosen = following
        m.d.comb += [self.elements[i].eq(element) for i, element in enumerate(chosen)]
        return m
