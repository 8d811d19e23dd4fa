"""How a layer whose tensors are not resident is cut into stripes or boxes that fit the activation memory."""

import dataclasses
import math
from collections.abc import Callable

from tosaic.compiler.emit.elementwise import box_buffers, stripeable, tileable, tiles_of_box
from tosaic.compiler.emit.operands import PARAMETERS, WINDOW, StripeBuffer, stripe_buffers
from tosaic.compiler.fuse.layers import Layer
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import Graph
from tosaic.compiler.place.memory import OutOfMemory
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.tile.image_boxes import MAX_COUNT, Extent, ImageBoxes

_FEW_COLUMNS = (64, 32, 16, 8, 4, 2, 1)
"""Widths of boxes that are cut along the channels too, the best first: many columns use weights often."""
_MOST_BOXES = 128
"""Boxes of whole rows that are compared."""
_IDLE = 1.25
"""Times the array cycles of the whole layer at once: from then on boxes of other heights are looked at."""


class Striper:
    """Chooses stripes; the buffers come out of the placer's arena."""

    def __init__(self, graph: Graph, placer: Placer):
        self.graph, self.placer = graph, placer

    def stripes(
        self, layer: Layer, reads: list[str], output: str, param_bytes: int
    ) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """(elements per stripe, buffers, addresses to free) for tensors that are not resident. `param_bytes`: of the
        parameters for a tile of channels, when they are brought in box by box."""
        external = [name for name in [*reads, output] if not self.placer.placements[name].resident]
        elements = math.prod(self.graph.tensors[layer.output].shape)
        if not external and not param_bytes:
            return elements, {}, []
        self.placer.release_pending()
        if not stripeable(self.graph, layer):
            if tileable(layer):
                return self._boxes(layer, external, param_bytes)
            sizes = {name: self.placer.placements[name].bytes for name in external}
            return elements, *stripe_buffers(self.placer.arena, sizes)

        def sizes_of(count: int) -> dict[str, int]:
            wholes = {name: self.placer.placements[name].bytes for name in external}
            return {name: min(whole, count * (whole // elements)) for name, whole in wholes.items()}

        step = self.placer.config.columns
        count = self._largest(max(1, elements // step), elements, step, sizes_of)
        if count is None:
            raise self._too_large(layer)
        return count, *stripe_buffers(self.placer.arena, sizes_of(count))

    def image_boxes(
        self,
        layer: Layer,
        cut: ImageBoxes,
        reads: list[str],
        output: str,
        param_bytes: int,
        work: Callable[[int, int], tuple[int, int]] | None = None,
    ) -> tuple[Extent, dict[str, StripeBuffer], list[int]]:
        """(largest box, buffers, addresses to free) of a layer with a window. `param_bytes`: of the parameters for
        `cut.step` channels, when they are brought in box by box. `work`: cycles and bytes of weights of a box of so
        many rows and columns."""
        external = [name for name in [*reads, output] if not self.placer.placements[name].resident]
        most = cut.largest()
        if not external and not param_bytes:
            return most, {}, []
        self.placer.release_pending()
        target = self.graph.tensors[layer.output]
        images = {output: ELEMENT[target.dtype].bytes}
        for load in layer.program.loads[layer.program.body_loads :]:
            images[self.placer.storage[load.tensor]] = load.element.bytes

        def sizes_of(extent: Extent) -> dict[str, int]:
            sizes = {}
            for name in external:
                if name == cut.window.view.storage:
                    sizes[WINDOW + name] = cut.source_bytes(extent)
                if name in images:
                    sizes[name] = cut.image_bytes(extent, images[name])
            if param_bytes:
                sizes[PARAMETERS] = -(-extent.channels // cut.step) * param_bytes
            return sizes

        if param_bytes:
            # Parameters may take an eighth of the memory, twice.
            tiles = max(1, self.placer.config.am_bytes // 8 // param_bytes)
            most = dataclasses.replace(most, channels=min(most.channels, tiles * cut.step))
        attempts = [most, dataclasses.replace(most, rows=1)]
        attempts += [Extent(1, min(most.columns, n), most.channels) for n in _FEW_COLUMNS]
        for attempt in attempts:
            extent = self._largest_extent(cut, attempt, sizes_of)
            if extent is not None:
                if work is not None and not param_bytes and extent.channels == most.channels:
                    extent = self._better_rows(cut, extent, sizes_of, work)
                return extent, *stripe_buffers(self.placer.arena, sizes_of(extent))
        raise self._too_large(layer)

    def _better_rows(
        self,
        cut: ImageBoxes,
        extent: Extent,
        sizes_of: Callable[[Extent], dict[str, int]],
        work: Callable[[int, int], tuple[int, int]],
    ) -> Extent:
        """Boxes of another height where these leave much of the array idle, if those take fewer cycles, even though
        they fit only once."""
        height, best = cut.window.oh, extent
        if extent.columns < cut.window.ow or height > MAX_COUNT:
            return extent
        whole, rest = divmod(height, extent.rows)
        busy = whole * work(extent.rows, extent.columns)[0] + (work(rest, extent.columns)[0] if rest else 0)
        if busy < _IDLE * work(height, extent.columns)[0]:
            return extent
        before = self._cycles(cut, extent, sizes_of, work)
        least = before
        for count in range(1, min(height, _MOST_BOXES) + 1):
            other = dataclasses.replace(extent, rows=-(-height // count))
            cycles = self._cycles(cut, other, sizes_of, work) if other.rows <= cut.largest().rows else None
            if cycles is not None and (least is None or cycles < least):
                least, best = cycles, other
        return best

    def _cycles(
        self,
        cut: ImageBoxes,
        extent: Extent,
        sizes_of: Callable[[Extent], dict[str, int]],
        work: Callable[[int, int], tuple[int, int]],
    ) -> int | None:
        """Cycles of all boxes by what they compute and transfer; None if they do not fit."""
        sizes, arena = sizes_of(extent), self.placer.arena
        try:
            buffers, taken = stripe_buffers(arena, sizes)
        except OutOfMemory:
            return None
        for address in taken:
            arena.free(address)
        doubled = all(len(buffer.addresses) == 2 for buffer in buffers.values())
        word_bytes, transfer = self.placer.config.word_bytes, sum(sizes.values())
        whole, rest = divmod(cut.window.oh, extent.rows)
        total = transfer // word_bytes
        for number, rows in ((whole, extent.rows), (1, rest)):
            if not rows:
                continue
            cycles, weight_bytes = work(rows, extent.columns)
            moved = transfer * rows // extent.rows
            if doubled:
                total += number * max(cycles, (moved + weight_bytes) // word_bytes)
            else:
                total += number * (max(cycles, weight_bytes // word_bytes) + moved // word_bytes)
        return total

    def _largest_extent(
        self, cut: ImageBoxes, most: Extent, sizes_of: Callable[[Extent], dict[str, int]]
    ) -> Extent | None:
        """The largest box within `most` that fits: of fewer rows; of one row, narrower; narrow, with fewer channels."""
        if most.rows > 1:
            rows = self._largest(
                most.rows, most.rows, 1, lambda n: sizes_of(Extent(n, most.columns, most.channels))
            )
            return None if rows is None else Extent(rows, most.columns, most.channels)
        if most.columns > _FEW_COLUMNS[0]:
            columns = self._largest(
                most.columns, most.columns, 1, lambda n: sizes_of(Extent(1, n, most.channels))
            )
            if columns is None or columns < _FEW_COLUMNS[2]:
                return None
            return Extent(1, columns, most.channels)
        channels = self._largest(
            -(-most.channels // cut.step),
            most.channels,
            cut.step,
            lambda n: sizes_of(Extent(1, most.columns, min(n, most.channels))),
        )
        return None if channels is None else Extent(1, most.columns, min(channels, most.channels))

    def _largest(
        self, high: int, whole: int, step: int, sizes_of: Callable[[int], dict[str, int]]
    ) -> int | None:
        """The largest multiple of `step`, up to `high` of them, whose buffers fit twice, or at least once."""
        low, best = 1, None
        while low <= high:
            middle = (low + high) // 2
            try:
                buffers, taken = stripe_buffers(self.placer.arena, sizes_of(middle * step))
            except OutOfMemory:
                high = middle - 1
                continue
            doubled = middle * step >= whole or all(len(b.addresses) == 2 for b in buffers.values())
            for address in taken:
                self.placer.arena.free(address)
            if doubled or best is None or middle == 1:
                best = middle
            if doubled:
                low = middle + 1
            else:
                high = middle - 1
        return None if best is None else best * step

    def _too_large(self, layer: Layer) -> OutOfMemory:
        return OutOfMemory(
            f"{layer.root}: one pixel of {self.graph.tensors[layer.output]} and its inputs "
            "do not fit the activation memory"
        )

    def _boxes(
        self, layer: Layer, external: list[str], param_bytes: int
    ) -> tuple[int, dict[str, StripeBuffer], list[int]]:
        """`stripes` of a layer that broadcasts or goes by channels: the largest boxes of the result that fit."""
        limit = math.prod(self.graph.tensors[layer.output].shape)
        # Smaller boxes would take ages; then rather let fewer tensors be resident.
        smallest = min(limit, self.placer.config.am_bytes // 64)
        while True:
            wanted = box_buffers(self.graph, layer, limit, self.placer.config)
            sizes = {
                role + self.placer.storage[name]: size
                for role, name, size in wanted
                if self.placer.storage[name] in external
            }
            if param_bytes:
                tiles = tiles_of_box(self.graph, layer, limit, self.placer.config)
                sizes[PARAMETERS] = tiles * param_bytes
            try:
                return limit, *stripe_buffers(self.placer.arena, sizes)
            except OutOfMemory:
                if limit == smallest:
                    raise
                limit = max(smallest, limit // 2)
