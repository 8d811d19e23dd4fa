"""Emits CONV2D, DEPTHWISE_CONV2D and MATMUL on the array, with the layer's micro-program on the way out (clauses 2.3.3,
2.3.5 and 2.3.8)."""

import dataclasses

from tosaic.compiler.emit.array_go import ArrayGo, emit_array
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource, BoxTransfers
from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.layout_copy import CopyEmission
from tosaic.compiler.emit.vector_go import Access, Dim, VectorGo
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.place.address import Span
from tosaic.compiler.place.placement import Copy
from tosaic.compiler.place.weights import MAX_COUNT, Blob
from tosaic.compiler.tile.convolution import Tile
from tosaic.compiler.tile.image_boxes import Box
from tosaic.compiler.tile.work import ArrayBody
from tosaic.hw.isa import STORE_STREAM, Element

_STEPS_AHEAD = 3
"""Packed steps that are on their way to weight memory while the array works on another one."""


class WeightPacking:
    """Packs the weights of a layer on the machine: all before the layer runs, or step by step while it does."""

    def __init__(self, emission: LayerEmission, body: ArrayBody):
        self._weights = body.plan.weights
        packing = self._weights.packing
        self._copy = CopyEmission(emission.emitter, packing) if packing is not None else None

    def begin(self) -> None:
        """Emits what must come before the layer."""
        if self._copy is not None and not self._weights.gradual:
            self._copy.emit()
        self._ready(0)

    def ready(self, tile: Tile) -> None:
        """Emits the packing of a tile's group, and some more ahead of time."""
        self._ready(tile.group_address - self._weights.address + tile.group_bytes)

    def _ready(self, stop: int) -> None:
        if self._copy is not None and self._weights.gradual:
            self._copy.emit(stop + _STEPS_AHEAD * self._weights.step_bytes)


@dataclasses.dataclass(frozen=True)
class BoxOnArray:
    """A box with its tensors in place."""

    box: Box
    source: BoxSource
    loads: list[tuple[Load, BoxPlace]]
    target: BoxPlace


def _pixels(box: Box, element: Element, place: BoxPlace, channel: int, *, by_columns: bool) -> Access:
    """A walk over all pixels of a box, from a channel on: row by row, or column by column."""
    dims: tuple[Dim, ...] = (Dim(box.columns, place.pixel_bytes), Dim(box.rows, place.row_bytes))
    if by_columns:
        return Access(place.address + channel * element.bytes, element, dims[::-1])
    count, linear = (
        box.rows * box.columns,
        box.rows == 1 or place.row_bytes == box.columns * place.pixel_bytes,
    )
    if linear and count <= MAX_COUNT:
        dims = (Dim(count, place.pixel_bytes),)
    return Access(place.address + channel * element.bytes, element, dims)


class ConvolutionEmission:
    """Emits all boxes and tiles of a convolution layer."""

    def __init__(self, emission: LayerEmission, body: ArrayBody, packing: WeightPacking, late: list[Copy]):
        """`late` is what VECTOR needs of external memory: it comes behind the first weights."""
        self._late = late
        self.emission, self.body, self.plan, self.packing = emission, body, body.plan, packing
        self.emitter, self.layer, self.config = emission.emitter, emission.layer, emission.config
        self.element = emission.tensors.element(self.layer.output)

    def emit(self) -> None:
        body = self.body
        transfers = BoxTransfers(self.emission, body.cut, body.extent)
        for box in body.cut.boxes(body.extent):
            tiles = self.plan.tiles_of(box.image)[box.c0 // body.cut.step : -(-box.c1 // body.cut.step)]
            first_tile = box.c0 // body.cut.step
            self.emission.bring_params(first_tile, len(tiles))
            source = transfers.source(box)
            loads = [
                (load, transfers.operand(stream, box)) for stream, load in enumerate(self.layer.program.loads)
            ]
            placed = BoxOnArray(box, source, loads, transfers.target(self.element.bytes, box))
            if body.in_blocks:
                self._emit_in_blocks(placed, first_tile)
            else:
                for number, tile in enumerate(tiles, first_tile):
                    self._emit_tile(placed, tile, number)
            transfers.finish(self.element.bytes, box, placed.target)

    def _emit_tile(self, placed: BoxOnArray, tile: Tile, number: int) -> None:
        """An array GO for one tile of output channels, and the vector GOs that take its results."""
        self.packing.ready(tile)
        group = self.emitter.weights(tile.group_address, tile.group_bytes)
        weights = (group.address + (tile.address - tile.group_address)) % self.config.wm_bytes
        emit_array(self.emitter, self.plan, ArrayGo(tile, weights, placed.source))
        while self._late:
            self.emitter.copy(self._late.pop(0))
        self.emitter.vector(
            VectorGo(
                self.layer.program,
                self._streams(placed, tile.blob.first - placed.box.c0),
                vectors=placed.box.rows * placed.box.columns,
                slots=self.config.vector_slots,
                lanes=tile.blob.channels,
                tail_lanes=tile.blob.channels,
                reads=[place.span for _, place in placed.loads],
                writes=[self._written(placed, tile.blob)],
                consumes_array=True,
                params=self.emission.params_of(number),
                table=self.emission.take_table(),
            )
        )

    def _written(self, placed: BoxOnArray, blob: Blob) -> Span:
        """What a tile of output channels writes of its box."""
        size = self.element.bytes
        return placed.target.span_of((blob.first - placed.box.c0) * size, blob.channels * size)

    def _streams(self, placed: BoxOnArray, channel: int) -> dict[int, Access]:
        """From a channel of the box on."""
        by_columns = self.plan.im2col_columns > 0
        streams = {
            stream: _pixels(placed.box, load.element, place, channel, by_columns=by_columns)
            for stream, (load, place) in enumerate(placed.loads)
        }
        streams[STORE_STREAM] = _pixels(
            placed.box, self.element, placed.target, channel, by_columns=by_columns
        )
        return streams

    # --- many tiles by one command

    def _emit_in_blocks(self, placed: BoxOnArray, first_tile: int) -> None:
        """Weights are streamed, piece by piece: a load, an array GO and a vector GO for many tiles."""
        tiles, config = self.plan.tiles, self.config
        # A piece of the weight memory is read while others are filled.
        together = config.wm_bytes // 4
        if self.plan.weights.unpacked:
            together = self.plan.tiles[0].group_bytes
        count = max(1, together // self.plan.layout.blob_bytes)
        for start in range(0, len(tiles), count):
            piece = tiles[start : start + count]
            size = sum(tile.bytes for tile in piece)
            weights = self.emitter.weights(piece[0].address, size, streamed=True)
            go = ArrayGo(piece[0], weights.address, placed.source, len(piece), weights.loaded)
            emit_array(self.emitter, self.plan, go)
            # The last tile may have fewer channels.
            whole = sum(tile.blob.channels == piece[0].blob.channels for tile in piece)
            for index, blocks in ((0, whole), (whole, len(piece) - whole)):
                if blocks:
                    self._emit_blocks(placed, piece[index].blob, first_tile + start + index, blocks)

    def _emit_blocks(self, placed: BoxOnArray, blob: Blob, first_tile: int, blocks: int) -> None:
        """The vector GO of `blocks` tiles."""

        def with_blocks(access: Access) -> Access:
            # The count may be larger than what is left of the layer; the command stays the same.
            dims = (*access.dims, Dim(len(self.plan.tiles), blob.channels * access.element.bytes))
            return dataclasses.replace(access, dims=dims)

        streams = self._streams(placed, blob.first - placed.box.c0)
        pixels = placed.box.rows * placed.box.columns
        self.emitter.vector(
            VectorGo(
                self.layer.program,
                {number: with_blocks(access) for number, access in streams.items()},
                vectors=pixels * blocks,
                slots=pixels,
                lanes=blob.channels,
                tail_lanes=blob.channels,
                reads=[place.span for _, place in placed.loads],
                writes=[placed.target.span],
                consumes_array=True,
                params=self.emission.params_of(first_tile, blocks),
                table=self.emission.take_table(),
            )
        )
