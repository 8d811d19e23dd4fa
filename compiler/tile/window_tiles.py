"""What the output of a layer with a window may be cut into, so that its tensors fit the activation memory."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import ClassVar

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import (
    BOX_CHANNEL_CUTS,
    BOX_NARROW_COLUMNS,
    BOX_PARAMETERS_AM_PART,
    LARGE_WEIGHTS_CHANNEL_CUTS,
    OTHER_BOXES_SHARE,
    STRIP_HEIGHTS_COMPARED,
)
from tosaic.compiler.place.buffers import Sizes
from tosaic.compiler.place.placement import PARAMETERS, BufferKey, Role
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.tile.box_cost import BoxCost
from tosaic.compiler.tile.box_search import even_parts
from tosaic.compiler.tile.im2col import Strips
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling
from tosaic.compiler.tile.picked import can_pick


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


class WindowCuts:
    """The boxes that a layer with a window may run in: rows; parts of a row; narrow ones of some channels."""

    clearly: ClassVar[float] = OTHER_BOXES_SHARE

    def __init__(self, placer: Placer, wanted: WindowLayer, cost: BoxCost):
        self.placer, self.wanted, self.cut, self.cost = placer, wanted, wanted.cut, cost
        tensors, program = placer.tensors, wanted.layer.program
        self._images = {BufferKey(Role.RESULT, wanted.output): tensors.element(wanted.layer.output).bytes}
        for stream, load in list(enumerate(program.loads))[program.body_loads :]:
            if stream not in wanted.layer.lines:
                self._images[tensors.operand_key(load.tensor, stream)] = load.element.bytes

    def rungs(self) -> Iterator[Iterable[Tiling]]:
        cuts, most = [self.cut], self._most()
        if not self.wanted.external and not self.wanted.param_bytes:
            yield [Tiling(self.cut, most)]
        if self.cut.window.view.storage in self.wanted.external and can_pick(self.cut):
            cuts.append(dataclasses.replace(self.cut, picked=True))
        rungs = [self._parts_of_rows(most)]
        if not self.cut.window.columns_apart:
            rungs.insert(0, self._rows(most))
        for rung in rungs:
            yield (Tiling(cut, extent) for extent, cut in itertools.product(rung, cuts))

    def _most(self) -> Extent:
        most = self.cut.largest()
        if not self.wanted.param_bytes:
            return most
        tiles = max(1, self.placer.config.am_bytes // BOX_PARAMETERS_AM_PART // self.wanted.param_bytes)
        return dataclasses.replace(most, channels=min(most.channels, tiles * self.cut.step))

    def _parts_of_rows(self, most: Extent) -> Iterator[Extent]:
        """Boxes of one row: of all channels, and narrow ones of some."""
        for columns in self._columns(most.columns):
            yield Extent(1, columns, most.channels)
        for columns in dict.fromkeys(min(most.columns, few) for few in BOX_NARROW_COLUMNS):
            for channels in even_parts(most.channels, self.cut.step):
                yield Extent(1, columns, channels)

    def _rows(self, most: Extent) -> Iterator[Extent]:
        """Boxes of whole rows."""
        height, config = self.cut.window.oh, self.placer.config
        # Tiles of pixels are full where boxes end.
        step = config.rows // math.gcd(config.rows, most.columns)
        rows = {min(most.rows, each) for each in even_parts(height)}
        rows |= {min(most.rows, -(-each // step) * step) for each in rows}
        channels, tiles = [most.channels], -(-most.channels // self.cut.step)
        if (
            self.cut.multiplier is None
            and height * most.columns > config.rows
            and not self.wanted.param_bytes
        ):
            cuts = BOX_CHANNEL_CUTS + (LARGE_WEIGHTS_CHANNEL_CUTS if self._has_large_weights() else ())
            channels += [self.cut.step * -(-tiles // count) for count in cuts if count <= tiles]
        for each, width in itertools.product(sorted(rows, reverse=True), dict.fromkeys(channels)):
            yield Extent(each, most.columns, width)

    def _has_large_weights(self) -> bool:
        base = self.wanted.layer.base
        if base is None or KIND[base.op] is not Kind.ARRAY:
            return False
        return self.placer.tensors.size_bytes(base.inputs[1]) > self.placer.config.am_bytes

    def _columns(self, most: int) -> list[int]:
        """Widths of boxes."""
        step = self.placer.config.rows
        columns = {min(most, each) for each in even_parts(self.cut.window.ow)}
        columns |= {min(most, -(-each // step) * step) for each in columns}
        return sorted(columns, reverse=True)

    def sizes(self, tiles: Tiling) -> Sizes:
        wanted, sizes, cut, extent = self.wanted, Sizes(), tiles.cut, tiles.extent
        for name in wanted.external:
            if name == cut.window.view.storage:
                sizes[BufferKey(Role.WINDOW, name)] = cut.source_bytes(extent)
            for key, element_bytes in self._images.items():
                if key.tensor == name:
                    sizes[key] = cut.image_bytes(extent, element_bytes)
                    if key.role is Role.RESULT and wanted.layer.continued is not None:
                        # Sums of all boxes.
                        sizes[key] = self.placer.placements[name].bytes
        if wanted.param_bytes:
            sizes[PARAMETERS] = -(-extent.channels // cut.step) * wanted.param_bytes
        return sizes

    def cycles(self, tiles: Tiling, sizes: Sizes, turns: int) -> float:
        return self.cost.cycles(tiles, sizes, doubled=turns > 1)


class StripCuts(WindowCuts):
    """Those of a convolution whose image comes in strips."""

    def __init__(self, placer: Placer, wanted: WindowLayer, cost: BoxCost, strips: Strips):
        super().__init__(placer, wanted, cost)
        self.strips = strips

    def rungs(self) -> Iterator[Iterable[Tiling]]:
        most = self._most()
        for channels in even_parts(most.channels, self.cut.step):
            yield self._strips(itertools.islice(even_parts(most.rows), STRIP_HEIGHTS_COMPARED), channels)
        # Of a very high image only a few rows fit.
        few = itertools.islice(even_parts(most.rows), STRIP_HEIGHTS_COMPARED, None)
        yield self._strips(few, min(most.channels, self.cut.step))

    def _strips(self, heights: Iterable[int], channels: int) -> Iterator[Tiling]:
        for rows, (columns, first) in itertools.product(heights, self.strips.widths()):
            cut = dataclasses.replace(self.cut, first_columns=first)
            yield Tiling(cut, Extent(rows, columns, channels))

    def cycles(self, tiles: Tiling, sizes: Sizes, turns: int) -> float:
        extent, layout = tiles.extent, self.strips.layout
        widths = extent.columns, tiles.cut.first_columns
        groups = len(range(0, self.cut.channels, extent.channels))
        return self.strips.times(extent.rows, *widths, turns, layout.bytes, groups)[0]
