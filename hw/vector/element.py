"""The elements of a loaded word, spread over the lanes."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..one_hot import only_if

ElementFormat = data.StructLayout({"bytes1": 1, "bytes2": 1, "bytes4": 1, "bytes8": 1, "signed": 1})
"""Elements have 1, 2, 4 or 8 bytes, and a sign. With no size at all every element is 0."""


class Elements(wiring.Component):
    """Extends the elements of the first `lanes` lanes, each as if the word were that of its lane's beat. Combinational.

    Lanes whose wide elements lie in the same place of a word share them. All is AND and OR, and the sizes exclude each
    other, so that what follows in the lanes joins it.

    Ports:
        word (8 W, in): the loaded word.
        bytes (8 x lanes, in): those of its bytes that are the lanes' elements of one byte.
        pairs (16 x lanes, at most 8 W, in): those of its pairs of bytes that are the lanes' elements of two bytes.
        format (ElementFormat, in): size and sign of its elements.
        splat (vector_bits, in): what every lane gets besides; 0 unless the format has no size.
        elements (lanes x vector_bits, out): the lanes' elements, extended.
    """

    def __init__(self, config: Config, lanes: int):
        self.config, self.lanes = config, lanes
        super().__init__(
            {
                "word": In(8 * config.columns),
                "bytes": In(8 * lanes),
                "pairs": In(min(16 * lanes, 8 * config.columns)),
                "format": In(ElementFormat),
                "splat": In(config.vector_bits),
                "elements": Out(data.ArrayLayout(config.vector_bits, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flags = self.format
        # The bits that only elements of the size, and wider ones, fill: for each place in the word.
        high8 = self._places(m, 8, slice(32, self.config.vector_bits), [self.splat])
        wide8 = self._places(m, 8, slice(0, 32), [self.splat])
        wide4 = self._places(m, 4, slice(0, 32), wide8)
        wide2 = self._places(m, 2, slice(0, 16), wide4)
        wide1 = self._places(m, 1, slice(0, 8), wide2)
        for i in range(self.lanes):
            # The sign of an element fills the bits above it.
            fills, fill = {}, 0
            for size, flag in ((1, flags.bytes1), (2, flags.bytes2), (4, flags.bytes4)):
                source = self._source(size)
                sign = source[8 * size * i % len(source) :][: 8 * size][-1]
                filled = Signal(name=f"fill_{size}_{i}")
                m.d.comb += filled.eq((flags.signed & flag & sign) | fill)
                fills[size] = fill = filled
            m.d.comb += self.elements[i].eq(
                Cat(
                    wide1[i % len(wide1)],
                    wide2[i % len(wide2)][8:] | fills[1].replicate(8),
                    wide4[i % len(wide4)][16:] | fills[2].replicate(16),
                    high8[i % len(high8)] | fills[4].replicate(len(high8[0])),
                )
            )
        return m

    def _source(self, size: int) -> Signal:
        """Returns where the elements of `size` bytes lie."""
        return {1: self.bytes, 2: self.pairs}.get(size, self.word)

    def _places(self, m: Module, size: int, bits: slice, wider: list) -> list:
        """These bits of each of the word's elements of `size` bytes, or else of what is wider in its place."""
        found, source = [], self._source(size)
        for i in range(min(self.config.columns // size, self.lanes)):
            place = Signal(bits.stop - bits.start, name=f"bytes{size}_{i}_{bits.start}")
            element = source[8 * size * i :][: 8 * size][bits]
            other = wider[i % len(wider)]
            other = other[bits] if len(other) >= bits.stop else other[: len(place)]
            m.d.comb += place.eq(only_if(self.format[f"bytes{size}"], element) | other)
            found.append(place)
        return found or [value[bits] for value in wider]
