"""Chooses the stripes of a cascade: the height with the fewest predicted cycles among those whose buffers fit."""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar

from tosaic.compiler.cost.layers import cascade_cycles
from tosaic.compiler.machine_numbers import CASCADE_MOST_STRIPES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.buffers import Buffers, Sizes
from tosaic.compiler.place.placement import Buffer, BufferKey, Copy, Placement, Role, Sent
from tosaic.compiler.tile.cascade import Heights, StripeRows, heights_of
from tosaic.compiler.tile.demands import demand_of
from tosaic.compiler.tile.image_boxes import Extent
from tosaic.compiler.tile.work import ArrayBody, LayerWork, PoolBody
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class _Places:
    """Where the results of a cascade's layers are."""

    held: list[int]
    """Addresses of stripes."""
    waiting: list[Address]
    """Addresses of rows that are kept from stripe to stripe."""
    output: Placement
    shown: Sequence[Sent | None]
    """Where results go outside, if they are wanted there."""


@dataclasses.dataclass(frozen=True)
class _Copies:
    """The rows that come back for a stripe, and those that leave for the next one."""

    restored: list[Copy] = dataclasses.field(default_factory=list)
    saved: list[Copy] = dataclasses.field(default_factory=list)


def _anywhere(size_bytes: int) -> Address:
    """External memory for a plan that is only compared."""
    return Address(Region.DATA, 0)


def body_of(work: LayerWork) -> ArrayBody | PoolBody:
    """The boxes of a layer with a window."""
    assert isinstance(work.body, ArrayBody | PoolBody)
    return work.body


def row_bytes(work: LayerWork) -> int:
    """Bytes of a row of a layer's result."""
    return work.tensors.size_bytes(work.layer.output) // body_of(work).cut.window.oh


class CascadeCuts:
    """The stripes that a cascade of `members`, whose placements are those outside of the cascade, may run in.

    `output`: where the last result is. `pitches`: bytes from row to row of results that are stored with their rows
    apart. `whole`: numbers of the members whose results are wanted outside, too."""

    clearly: ClassVar[float] = 1.0

    def __init__(
        self,
        members: Sequence[LayerWork],
        output: Placement,
        config: Config,
        speed: MemorySpeed,
        pitches: Mapping[str, int],
        whole: Collection[int] = (),
    ):
        self.members, self.output, self.config, self.speed, self.whole = members, output, config, speed, whole
        self.cuts = [body_of(work).cut for work in members]
        self._pitches = [pitches.get(work.layer.output, 0) or row_bytes(work) for work in members]
        self._between = [work.output for work in members[:-1]]

    def rungs(self) -> Iterator[Iterator[Heights]]:
        yield heights_of(self.cuts, CASCADE_MOST_STRIPES, self.whole)

    def sizes(self, tiles: Heights) -> Sizes:
        """A stripe of each result but the last, and the buffers of all layers for what is outside. Layers that read the
        same operand share its buffers."""
        rows = zip(self._between, tiles.most_rows(), self._pitches, strict=False)
        sizes = {BufferKey(Role.STRIPE, name): count * pitch for name, count, pitch in rows}
        for number, extent in enumerate(self._extents(tiles)):
            wanted = self._sizes(number, tiles, extent)
            sizes |= {key: max(size, sizes.get(key, 0)) for key, size in wanted.items()}
        return sizes

    def cycles(self, tiles: Heights, sizes: Sizes, turns: int) -> float:
        works = self.stripes(tiles, self._anywhere(sizes, turns), _anywhere)
        return cascade_cycles([demand_of(work, self.config) for _, work in works], self.config, self.speed)

    def _anywhere(self, sizes: Sizes, turns: int) -> Buffers:
        """Buffers for a plan that is only compared."""
        return {
            key: Buffer((0,) * (min(turns, 2) if key.role.takes_turns else 1), size)
            for key, size in sizes.items()
        }

    def stripes(
        self,
        tiles: Heights,
        buffers: Buffers,
        reserve: Callable[[int], Address],
        shown: Sequence[Sent | None] = (),
    ) -> list[tuple[int, LayerWork]]:
        """The layer's number and its work, stripe by stripe in the order in which they run. `reserve` gives external
        memory for the rows that are kept; `shown`: where results go outside, if they are wanted there."""
        waiting = [
            reserve(rows * pitch) for rows, pitch in zip(tiles.most_kept(), self._pitches, strict=True)
        ]
        held = [buffers[BufferKey(Role.STRIPE, name)].addresses[0] for name in self._between]
        extents = self._extents(tiles)
        mine = [
            {key: buffers[key] for key in self._sizes(number, tiles, extent)}
            for number, extent in enumerate(extents)
        ]
        places = _Places(held, waiting, self.output, shown or [None] * len(self.members))
        return list(self._stripes(tiles, extents, places, mine))

    def _extents(self, heights: Heights) -> list[Extent]:
        mosts = [cut.largest() for cut in self.cuts]
        return [
            dataclasses.replace(most, rows=max(1, min(most.rows, rows)))
            for most, rows in zip(mosts, heights.most_rows(), strict=True)
        ]

    def _sizes(self, number: int, heights: Heights, extent: Extent) -> Sizes:
        """What one layer needs for a box of an extent."""
        work, cut, sizes = self.members[number], self.cuts[number], Sizes()
        source, program = cut.window.view.storage, work.layer.program
        if number == 0 and not work.placements[source].resident:
            sizes[BufferKey(Role.WINDOW, source)] = cut.source_bytes(extent, heights.most_source_rows())
        for stream, load in list(enumerate(program.loads))[program.body_loads :]:
            if stream in work.lines:
                continue
            key = work.tensors.operand_key(load.tensor, stream)
            if not work.placements[key.tensor].resident:
                sizes[key] = cut.image_bytes(extent, load.element.bytes)
        if number == len(self.members) - 1 and not self.output.resident:
            element_bytes = work.tensors.element(work.layer.output).bytes
            sizes[BufferKey(Role.RESULT, work.output)] = cut.image_bytes(extent, element_bytes)
        return sizes

    def _stripes(
        self, heights: Heights, extents: list[Extent], places: _Places, buffers: list[Buffers]
    ) -> Iterator[tuple[int, LayerWork]]:
        begun, stripes = set[int](), heights.stripes()
        for turn, stripe in enumerate(stripes):
            following = stripes[turn + 1] if turn + 1 < len(stripes) else None
            here = {
                name: self._place(number, places.held[number], stripe[number].needed[0])
                for number, name in enumerate(self._between)
            }
            for number, rows in enumerate(stripe):
                work = self.members[number]
                copies = self._kept(number - 1, places, stripe, following) if number else _Copies()
                if rows.computed[0] == rows.computed[1]:
                    continue
                body, target = body_of(work), here.get(work.output, places.output)
                cut = dataclasses.replace(body.cut, rows=rows.computed)
                reads = {name: here.get(name, place) for name, place in work.placements.items()}
                yield (
                    number,
                    dataclasses.replace(
                        work,
                        body=dataclasses.replace(body, cut=cut, extent=extents[number]),
                        placements={**reads, work.output: target},
                        preloads=[*([] if number in begun else work.preloads), *copies.restored],
                        saved=copies.saved,
                        buffers={key: _turned(buffer, turn) for key, buffer in buffers[number].items()},
                        result=self._leaving(number, rows, target, places.shown[number]),
                    ),
                )
                begun.add(number)

    def _kept(
        self, number: int, places: _Places, stripe: list[StripeRows], following: list[StripeRows] | None
    ) -> _Copies:
        """The rows of a result that come back for a stripe, and those that leave for the following one."""
        pitch, held, waiting = self._pitches[number], places.held[number], places.waiting[number]
        rows, copies = stripe[number], _Copies()
        if rows.kept:
            copies.restored.append(Copy(waiting, Address(Region.ACTIVATION, held), rows.kept * pitch))
        if following is not None and following[number].kept:
            first = following[number].needed[0] - rows.needed[0]
            source = Address(Region.ACTIVATION, held + first * pitch)
            copies.saved.append(Copy(source, waiting, following[number].kept * pitch))
        return copies

    def _place(self, number: int, address: int, first_row: int) -> Placement:
        """Where a result would be as a whole, if a row of it is at `address`."""
        work, pitch = self.members[number], self._pitches[number]
        size = work.tensors.size_bytes(work.layer.output)
        apart = pitch if pitch != row_bytes(work) else 0
        return Placement(Address(Region.ACTIVATION, address - first_row * pitch), size, apart)

    def _leaving(self, number: int, rows: StripeRows, target: Placement, shown: Sent | None) -> Sent | None:
        """What of a result that is wanted outside goes there with a stripe."""
        size = row_bytes(self.members[number])
        if shown is None:
            return None
        first, end = (row * size for row in rows.computed)
        first, end = max(first, shown.first_byte), min(end, shown.size_bytes)
        if first >= end:
            return None
        return dataclasses.replace(shown, source=target.address, first_byte=first, size_bytes=end)


def _turned(buffer: Buffer, turn: int) -> Buffer:
    """The buffer with its blocks in the order in which they take turns from the stripe on."""
    first = turn % len(buffer.addresses)
    return dataclasses.replace(buffer, addresses=buffer.addresses[first:] + buffer.addresses[:first])
