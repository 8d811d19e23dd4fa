"""How the output of a layer with a window is cut into boxes whose tensors fit the activation memory."""

import dataclasses
from collections.abc import Callable

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, Sizes, allocate_buffers, try_buffers
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.convolution import BoxWork
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.largest_fit import largest_fit

_FEW_COLUMNS = (64, 32, 16, 8, 4, 2, 1)
"""Widths of boxes that are cut along the channels too, the best first: many columns use weights often."""
_MOST_BOXES = 128
"""Boxes of whole rows that are compared."""
_IDLE = 1.25
"""Other heights of boxes are compared where the boxes' array cycles exceed those of the whole layer by this factor."""
_PARAMETER_SHARE = 8
"""Parameters that are brought in box by box take at most this fraction of the memory, twice."""

Work = Callable[[int, int], BoxWork]
"""What a box of some rows and columns costs."""


@dataclasses.dataclass(frozen=True)
class WindowLayer:
    """A layer with a window, and what of it is not resident."""

    layer: Layer
    cut: ImageBoxes
    external: list[str]
    """Storage names."""
    output: str
    param_bytes: int
    """Bytes of the parameters for `cut.step` channels, when they are brought in box by box; else 0."""


class WindowTiler:
    """Chooses the boxes of one layer; the buffers come out of the placer's arena."""

    def __init__(self, placer: Placer, wanted: WindowLayer):
        self.placer, self.wanted, self.cut = placer, wanted, wanted.cut
        tensors = placer.tensors
        program = wanted.layer.program
        self._images = {BufferKey(Role.RESULT, wanted.output): tensors.element(wanted.layer.output).bytes}
        for stream, load in list(enumerate(program.loads))[program.body_loads :]:
            self._images[tensors.operand_key(load.tensor, stream)] = load.element.bytes

    def choose(self, work: Work | None) -> tuple[Extent, Buffers]:
        """The largest box, with its buffers. `work` tells the cost of a convolution's boxes, where boxes that fit only
        once may be better."""
        wanted, most = self.wanted, self.cut.largest()
        if not wanted.external and not wanted.param_bytes:
            return most, {}
        self.placer.release_pending()
        if wanted.param_bytes:
            tiles = max(1, self.placer.config.am_bytes // _PARAMETER_SHARE // wanted.param_bytes)
            most = dataclasses.replace(most, channels=min(most.channels, tiles * self.cut.step))
        attempts = [most, dataclasses.replace(most, rows=1)]
        attempts += [Extent(1, min(most.columns, n), most.channels) for n in _FEW_COLUMNS]
        for attempt in attempts:
            extent = self._largest_within(attempt)
            if extent is not None:
                if work is not None and not wanted.param_bytes and extent.channels == most.channels:
                    extent = self._better_rows(extent, work)
                return extent, allocate_buffers(self.placer.arena, self._sizes(extent), self.cut.window_turns)
        raise OutOfMemory(
            f"{wanted.layer.root}: one pixel of {self.placer.tensors[wanted.layer.output]} and its inputs "
            "do not fit the activation memory"
        )

    def _sizes(self, extent: Extent) -> Sizes:
        wanted, sizes = self.wanted, Sizes()
        for name in wanted.external:
            if name == self.cut.window.view.storage:
                sizes[BufferKey(Role.WINDOW, name)] = self.cut.source_bytes(extent)
            for key, element_bytes in self._images.items():
                if key.tensor == name:
                    sizes[key] = self.cut.image_bytes(extent, element_bytes)
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
        if most.columns > _FEW_COLUMNS[0]:
            columns = largest_fit(
                arena, most.columns, most.columns, 1, lambda n: sizes(Extent(1, n, most.channels))
            )
            if columns is None or columns < _FEW_COLUMNS[2]:
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

    def _better_rows(self, extent: Extent, work: Work) -> Extent:
        """Boxes of another height where these leave much of the array idle, if those take fewer cycles, even though
        they fit only once."""
        height, best = self.cut.window.oh, extent
        if extent.columns < self.cut.window.ow or height > MAX_COUNT:
            return extent
        busy = sum(
            count * work(rows, extent.columns).array_cycles for count, rows in _heights(height, extent.rows)
        )
        if busy < _IDLE * work(height, extent.columns).array_cycles:
            return extent
        least = self._cycles(extent, work)
        for count in range(1, min(height, _MOST_BOXES) + 1):
            other = dataclasses.replace(extent, rows=-(-height // count))
            cycles = self._cycles(other, work) if other.rows <= self.cut.largest().rows else None
            if cycles is not None and (least is None or cycles < least):
                least, best = cycles, other
        return best

    def _cycles(self, extent: Extent, work: Work) -> int | None:
        """Cycles of all boxes by what they compute and transfer; None if they do not fit."""
        sizes = self._sizes(extent)
        doubled = try_buffers(self.placer.arena, sizes)
        if doubled is None:
            return None
        transfer = sum(sizes.values())
        bytes_per_cycle = self.placer.memories.speed.bytes_per_cycle(self.placer.config)
        total = transfer // bytes_per_cycle
        for count, rows in _heights(self.cut.window.oh, extent.rows):
            box = work(rows, extent.columns)
            moved = transfer * rows // extent.rows
            if doubled:
                total += count * max(box.array_cycles, (moved + box.weight_bytes) // bytes_per_cycle)
            else:
                fetching, moving = box.weight_bytes // bytes_per_cycle, moved // bytes_per_cycle
                total += count * (max(box.array_cycles, fetching) + moving)
        return total


def _heights(height: int, rows: int) -> list[tuple[int, int]]:
    """(boxes, their rows) of an image cut into boxes of `rows` rows and perhaps a lower one."""
    whole, rest = divmod(height, rows)
    return [(count, size) for count, size in ((whole, rows), (1, rest)) if size]
