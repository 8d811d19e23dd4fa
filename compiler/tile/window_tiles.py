"""How the output of a layer with a window is cut into boxes whose tensors fit the activation memory."""

import dataclasses
import itertools
import math
from collections.abc import Hashable

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.machine_numbers import (
    BOX_CHANNEL_CUTS,
    BOX_LEAST_COLUMNS,
    BOX_NARROW_COLUMNS,
    BOX_PARAMETERS_AM_PART,
    BOXES_COMPARED,
    OTHER_BOXES_SHARE,
)
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes, allocate_buffers, try_buffers
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.box_cost import BoxCost
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.largest_fit import largest_fit
from tosaic.compiler.tile.plan_memo import PlanMemo


@dataclasses.dataclass(frozen=True)
class WindowLayer:
    """A layer with a window, and what of it is not resident."""

    layer: Layer
    cut: ImageBoxes
    external: list[str]
    """Storage names of external tensors."""
    output: str
    param_bytes: int
    """Bytes of the parameters for `cut.step` channels, when they are brought in box by box; else 0."""


class WindowTiler:
    """Chooses the boxes of one layer; the buffers come out of the placer's arena."""

    def __init__(self, placer: Placer, wanted: WindowLayer, memo: PlanMemo | None = None):
        self.placer, self.wanted, self.cut, self.memo = placer, wanted, wanted.cut, memo
        tensors = placer.tensors
        program = wanted.layer.program
        self._images = {BufferKey(Role.RESULT, wanted.output): tensors.element(wanted.layer.output).bytes}
        for stream, load in list(enumerate(program.loads))[program.body_loads :]:
            if stream in wanted.layer.lines:
                continue
            self._images[tensors.operand_key(load.tensor, stream)] = load.element.bytes

    def choose(self, cost: BoxCost | None) -> tuple[Extent, Buffers]:
        """The largest box, with its buffers. `cost` is that of a convolution's boxes, where other boxes may be
        better."""
        if not self.wanted.external and not self.wanted.param_bytes:
            return self.cut.largest(), {}
        self.placer.release_pending()
        extent = self._known_extent(cost)
        sizes, turns, apart = self._sizes(extent), self.cut.window_turns, self._banks_written()
        return extent, allocate_buffers(self.placer.arena, sizes, turns, apart)

    def _known_extent(self, cost: BoxCost | None) -> Extent:
        """The box that an equal layer has had, or a new one."""
        if self.memo is None or (cost is not None and cost.work_content is None):
            return self._extent(cost)
        key = self._content(cost)
        if key not in self.memo.boxes:
            self.memo.boxes[key] = self._extent(cost)
        return self.memo.boxes[key]

    def _content(self, cost: BoxCost | None) -> Hashable:
        """All that the choice looks at, without names: the cut, what has buffers, the gaps of the memory, the cost."""
        wanted, cut = self.wanted, dataclasses.replace(self.cut, window=self.cut.window.without_name())
        buffers = tuple(
            (
                name == self.cut.window.view.storage,
                wanted.layer.continued and self.placer.placements[name].bytes,
                tuple((key.role, size) for key, size in self._images.items() if key.tensor == name),
            )
            for name in wanted.external
        )
        price = None if cost is None else (cost.beats, cost.work_content)
        return cut, buffers, wanted.param_bytes, tuple(self.placer.arena.gaps()), price

    def _extent(self, cost: BoxCost | None) -> Extent:
        """The largest box, or a better one."""
        wanted, most = self.wanted, self.cut.largest()
        if wanted.param_bytes:
            tiles = max(1, self.placer.config.am_bytes // BOX_PARAMETERS_AM_PART // wanted.param_bytes)
            most = dataclasses.replace(most, channels=min(most.channels, tiles * self.cut.step))
        attempts = [most, dataclasses.replace(most, rows=1)]
        attempts += [Extent(1, min(most.columns, n), most.channels) for n in BOX_NARROW_COLUMNS]
        for attempt in attempts:
            extent = self._largest_within(attempt)
            if extent is not None:
                if cost is not None and not wanted.param_bytes and extent.channels == most.channels:
                    extent = self._better(extent, cost)
                return extent
        raise OutOfMemory(
            f"{wanted.layer.root}: one pixel of {self.placer.tensors[wanted.layer.output]} and its inputs "
            "do not fit the activation memory"
        )

    def _banks_written(self) -> list[tuple[int, int]]:
        """The banks that VECTOR writes, where the output is resident."""
        placement, bank = self.placer.placements[self.wanted.output], self.placer.config.am_bank_bytes
        if not placement.resident:
            return []
        start = placement.address.offset
        return [(start // bank * bank, -(-(start + placement.bytes) // bank) * bank)]

    def _sizes(self, extent: Extent) -> Sizes:
        wanted, sizes = self.wanted, Sizes()
        for name in wanted.external:
            if name == self.cut.window.view.storage:
                sizes[BufferKey(Role.WINDOW, name)] = self.cut.source_bytes(extent)
            for key, element_bytes in self._images.items():
                if key.tensor == name:
                    sizes[key] = self.cut.image_bytes(extent, element_bytes)
                    if key.role is Role.RESULT and wanted.layer.continued is not None:
                        # Sums of all boxes.
                        sizes[key] = self.placer.placements[name].bytes
        if wanted.param_bytes:
            sizes[PARAMETERS] = -(-extent.channels // self.cut.step) * wanted.param_bytes
        return sizes

    def _largest_within(self, most: Extent) -> Extent | None:
        """The largest box within `most` that fits: of fewer rows; of one row, narrower; narrow, with fewer channels."""
        arena, sizes = self.placer.arena, self._sizes
        if most.rows > 1:
            rows = largest_fit(
                arena, most.rows, most.rows, 1, lambda n: sizes(Extent(n, most.columns, most.channels))
            )
            return None if rows is None else Extent(rows, most.columns, most.channels)
        if most.columns > BOX_NARROW_COLUMNS[0]:
            columns = largest_fit(
                arena, most.columns, most.columns, 1, lambda n: sizes(Extent(1, n, most.channels))
            )
            if columns is None or columns < BOX_LEAST_COLUMNS:
                return None
            return Extent(1, columns, most.channels)
        channels = largest_fit(
            arena,
            -(-most.channels // self.cut.step),
            most.channels,
            self.cut.step,
            lambda n: sizes(Extent(1, most.columns, min(n, most.channels))),
        )
        return None if channels is None else Extent(1, most.columns, min(channels, most.channels))

    def _better(self, extent: Extent, cost: BoxCost) -> Extent:
        """Boxes of another height, or of some channels, where they are predicted to take clearly fewer cycles."""
        height, whole = self.cut.window.oh, self.cut.largest()
        if self.cut.window.columns_apart:
            return self._narrower(extent, cost)
        if extent.columns < self.cut.window.ow or height > MAX_COUNT:
            return extent
        rows = {-(-height // count) for count in range(1, min(height, BOXES_COMPARED) + 1)}
        # Tiles of pixels are full where boxes end.
        step = self.placer.config.rows // math.gcd(self.placer.config.rows, extent.columns)
        rows |= {min(height, -(-each // step) * step) for each in rows}
        channels, tiles = [whole.channels], -(-whole.channels // self.cut.step)
        if self.cut.multiplier is None and height * extent.columns > self.placer.config.rows:
            channels += [self.cut.step * -(-tiles // count) for count in BOX_CHANNEL_CUTS if count <= tiles]
        best, least = extent, self._fitting(extent, cost)
        limit = least if least is None else int(OTHER_BOXES_SHARE * least)
        for other in itertools.product(sorted(rows, reverse=True), channels):
            candidate = Extent(other[0], extent.columns, other[1])
            cycles = self._fitting(candidate, cost) if candidate.rows <= whole.rows else None
            if cycles is not None and (limit is None or cycles < limit):
                limit, best = cycles, candidate
        return best

    def _narrower(self, extent: Extent, cost: BoxCost) -> Extent:
        """Boxes of fewer columns, where these are predicted to take clearly fewer cycles: the next one comes while one
        is computed."""
        width, step = self.cut.window.ow, self.placer.config.rows
        best, least = extent, self._fitting(extent, cost)
        columns = {-(-width // count) for count in range(1, min(width, BOXES_COMPARED) + 1)}
        columns |= {min(width, -(-each // step) * step) for each in columns}
        for each in sorted(columns, reverse=True):
            candidate = dataclasses.replace(extent, columns=each)
            cycles = self._fitting(candidate, cost) if each < extent.columns else None
            if cycles is not None and (least is None or cycles < OTHER_BOXES_SHARE * least):
                best, least = candidate, cycles
        return best

    def _fitting(self, extent: Extent, cost: BoxCost) -> int | None:
        """Cycles of all boxes by what they compute and transfer; None if they do not fit."""
        sizes = self._sizes(extent)
        doubled = try_buffers(self.placer.arena, sizes)
        return None if doubled is None else cost.cycles(self.cut, extent, sizes, doubled=doubled)
