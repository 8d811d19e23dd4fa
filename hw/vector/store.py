"""Packs the lanes' results into bytes and writes them."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..config import Config
from ..interfaces import AmWrite
from ..isa import Element, Opcode, layout
from ..layouts import shapes
from .beats import LOG2_BYTES, Group, members
from .extend import sign_extend
from .pipeline import PackedBeat

SIZES = {size: [element.value for element in Element if element.bytes == size] for size in (1, 2, 4, 8)}
"""Element types by their bytes."""


class StoredLanes:
    """The lanes below a limit: `whole` words of a vector, and these bytes (`part`) of the next one."""

    def __init__(self, name: str, limit: Signal, width: int):
        self.limit, self.whole = Signal.like(limit, name=name), Signal.like(limit, name=f"{name}_whole")
        self.part = Signal(width, name=f"{name}_part")

    def configure(self, size: int) -> list:
        """Takes the limit, in elements of `size` bytes."""
        width, limit = len(self.part), self.limit
        lanes = width // size
        part = (byte // size < limit % lanes for byte in range(width))
        return [self.whole.eq(limit // lanes), self.part.eq(Cat(part))]

    def bytes_of(self, word: Signal) -> Value:
        """A bit per byte of word number `word` of a vector: it is below the limit."""
        width = len(self.part)
        return (word < self.whole).replicate(width) | ((word == self.whole).replicate(width) & self.part)


class Store(wiring.Component):
    """Lanes' results in the store stream's element type, W bytes at a time, beat by beat.

    Ports:
        configure (1, in), go (VECTOR_GO, in): a GO begins; at least two cycles before a `pack`.
        pack (1, in), packed (PackedBeat, in): `results` of these lanes are to be stored. The write is prepared in the
            next cycle.
        results (vector_bits per lane, in): the lanes'.
        element (Element, in), address (VECTOR_STREAM.address, in): the store stream's.
        last (1, in): its dimension 0 is at its last turn.
        step, next_word (1, out): the store stream steps; goes on to the next word of a vector.
        write (AmWrite, out): the activation memory's write port.
    """

    def __init__(self, config: Config):
        self.config = config
        super().__init__(
            {
                "configure": In(1),
                "go": In(layout(Opcode.VECTOR_GO)),
                "pack": In(1),
                "packed": In(PackedBeat),
                "results": In(config.vector_bits * config.lanes),
                "element": In(Element),
                **{name: In(shape) for name, shape in shapes(Opcode.VECTOR_STREAM, "address").items()},
                "last": In(1),
                "step": Out(1),
                "next_word": Out(1),
                "write": Out(AmWrite(config)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.config.columns
        configured = Signal()
        lanes, tail = (
            StoredLanes("lanes", self.go.lanes, width),
            StoredLanes("tail_lanes", self.go.tail_lanes, width),
        )
        m.d.sync += configured.eq(self.configure)
        with m.If(self.configure):
            m.d.sync += [lanes.limit.eq(self.go.lanes), tail.limit.eq(self.go.tail_lanes)]

        # The first known bits of the group's number say which word of the vector it is, the others which part of it.
        group, sizes = self.packed.group, {size: log2 for log2, size in enumerate(SIZES) if size <= width}
        word, part = Signal(LOG2_BYTES), Signal(Group)
        packed, requested = Signal(8 * width, reset_less=True), Signal()
        selected = self._selected(m)
        with m.Switch(self.element):
            for size, log2 in sizes.items():
                with m.Case(*SIZES[size]):
                    m.d.comb += [
                        word.eq(group.position >> LOG2_BYTES - log2),
                        part.position.eq(group.position << log2),
                        part.known.eq(group.known << log2),
                    ]
                    with m.If(configured):
                        m.d.sync += [*lanes.configure(size), *tail.configure(size)]
                    with m.If(self.pack):
                        m.d.sync += packed.eq(self._word(size, selected[size]))
        below, below_tail = Signal(width, reset_less=True), Signal(width, reset_less=True)
        ends, next_word = Signal(), Signal()
        with m.If(self.pack):
            m.d.sync += [
                below.eq(lanes.bytes_of(word) & members(part, width)),
                below_tail.eq(tail.bytes_of(word) & members(part, width)),
            ]
        m.d.sync += [
            requested.eq(self.pack),
            ends.eq(self.pack & self.packed.ends),
            next_word.eq(self.pack & ~self.packed.ends & (part.position | ~part.known).all()),
            self.write.request.eq(requested),
        ]
        m.d.comb += [
            self.step.eq(ends),
            self.next_word.eq(next_word),
            self.write.prepare.eq(1),
            self.write.address.eq(self.address),
            self.write.data.eq(packed),
            self.write.mask.eq(Mux(self.last, below_tail, below)),
        ]
        return m

    def _selected(self, m: Module) -> dict[int, list[Value]]:
        """Returns the results of a word's lanes for elements of each size: half as many as for half the size, one
        half or the other."""
        width, bits = self.config.columns, self.config.vector_bits
        results = [self.results[bits * (i % self.config.lanes) :][:bits] for i in range(width)]
        found = {1: results}
        for size, upper in ((2, -1), (4, -2), (8, -3)):
            if size > width:
                break
            half = len(results) // 2
            if half >= self.config.lanes:
                # Both halves are the same lanes, each for one of its columns and then for another one.
                results = found[size] = results[:half]
                continue
            results = [
                Mux(self.packed.group.position[upper], above, below)
                for below, above in zip(results[:half], results[half:], strict=True)
            ]
            for i, result in enumerate(results):
                target = Signal(bits, name=f"bytes{size}_{i}")
                m.d.comb += target.eq(result)
                results[i] = target
            found[size] = results
        return found

    def _word(self, size: int, results: list[Value]) -> Value:
        """A word of elements of `size` bytes."""
        bits = self.config.vector_bits
        return Cat(
            result[: 8 * size] if 8 * size <= bits else sign_extend(result, 8 * size) for result in results
        )
