"""Emits CONV2D, DEPTHWISE_CONV2D and MATMUL on the array, with the layer's micro-program on the way out (clauses 2.3.3,
2.3.5 and 2.3.8)."""

import dataclasses
import enum

from tosaic.compiler.cost.array import vectors_in_turn
from tosaic.compiler.emit.array_go import ArrayGo, begun_early, emit_array, last_tile_apart, pixel_parts
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource, BoxTransfers
from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.layout_copy import CopyEmission
from tosaic.compiler.emit.vector_go import Access, Dim, ParamUse, VectorGo
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.machine_numbers import PACKING_STEPS_AHEAD, WEIGHT_LOAD_BYTES, WEIGHT_PIECE_WM_PART
from tosaic.compiler.place.address import Span, activation_span
from tosaic.compiler.place.placement import Copy
from tosaic.compiler.place.weights import MAX_COUNT, Blob
from tosaic.compiler.tile.convolution import Tile, box_work
from tosaic.compiler.tile.image_boxes import Box
from tosaic.compiler.tile.work import ArrayBody
from tosaic.hw.isa import STORE_STREAM, Element


class FirstUse(enum.Enum):
    """What of a layer's result the array, which works on it at once, needs before the rest."""

    NONE = enum.auto()
    """All of it, or it is used later."""
    ROWS = enum.auto()
    CHANNELS = enum.auto()


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
            self._copy.emit(stop + PACKING_STEPS_AHEAD * self._weights.step_bytes)


@dataclasses.dataclass(frozen=True)
class BoxOnArray:
    """A box with its tensors in place."""

    box: Box
    source: BoxSource
    loads: list[tuple[Load, BoxPlace]]
    target: BoxPlace

    @property
    def pixels(self) -> int:
        return self.box.rows * self.box.columns

    @property
    def linear(self) -> bool:
        """All pixels are equally far from each other, in all that VECTOR reads and writes."""
        places = [self.target, *(place for _, place in self.loads)]
        return all(place.row_bytes == self.box.columns * place.pixel_bytes for place in places)

    def part(self, first: int, last: int) -> "BoxOnArray":
        """Pixels [first, last), as VECTOR walks them; whole rows unless all is `linear`."""
        box, columns = self.box, self.box.columns
        if self.linear:
            box, row = dataclasses.replace(box, oy1=box.oy0 + 1, ox1=box.ox0 + last - first), 0
        else:
            row, rows = first // columns, (last - first) // columns
            box, first = dataclasses.replace(box, oy1=box.oy0 + rows), 0

        def moved(place: BoxPlace) -> BoxPlace:
            if not place.pixel_bytes:
                # A line along the channels, for all pixels.
                return place
            skipped = first * place.pixel_bytes + row * place.row_bytes
            size = box.columns * place.pixel_bytes if self.linear else box.rows * place.row_bytes
            return dataclasses.replace(
                place, address=place.address + skipped, bytes=min(size, place.bytes - skipped)
            )

        loads = [(load, moved(place)) for load, place in self.loads]
        return BoxOnArray(box, self.source, loads, moved(self.target))


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

    def __init__(
        self,
        emission: LayerEmission,
        body: ArrayBody,
        packing: WeightPacking,
        late: list[Copy],
        first_use: FirstUse = FirstUse.NONE,
    ):
        """`late` is what VECTOR needs of external memory: it comes behind the first weights."""
        self._late, self._first_use = late, first_use
        self.emission, self.body, self.plan, self.packing = emission, body, body.plan, packing
        self.emitter, self.layer, self.config = emission.emitter, emission.layer, emission.config
        self.element = emission.tensors.element(self.layer.output)
        self._transfers = BoxTransfers(emission, body.cut, body.extent)
        self._sums: BoxPlace | None = None
        """Place of all columns' sums, where rows are added up."""

    def emit(self) -> None:
        body, transfers = self.body, self._transfers
        early, self.emitter.early = self.emitter.early, None
        boxes = list(body.cut.boxes(body.extent))
        for box in boxes:
            tiles = self.plan.tiles_of(box.image)[box.c0 // body.cut.step : -(-box.c1 // body.cut.step)]
            first_tile = box.c0 // body.cut.step
            self.emission.bring_params(first_tile, len(tiles))
            source = transfers.source(box)
            loads = [
                (load, transfers.operand(stream, box)) for stream, load in enumerate(self.layer.program.loads)
            ]
            placed = BoxOnArray(box, source, loads, self._target(transfers, box))
            if body.in_blocks:
                self._emit_in_blocks(placed, first_tile)
            else:
                for number, tile in enumerate(tiles, first_tile):
                    sources = begun_early(self.plan, source, early, self.config)
                    early = None
                    last = self._first_use is FirstUse.ROWS and box is boxes[-1] and tile is tiles[-1]
                    self._emit_tile(placed, tile, number, sources, ends_early=last)
            if self._sums is None:
                transfers.finish(self.element.bytes, box, placed.target)
        if self._sums is not None:
            self.emission.finish(self._sums.address, 0, self._sums.bytes)

    def _target(self, transfers: BoxTransfers, box: Box) -> BoxPlace:
        """Where VECTOR writes: the box, or what is added up of its columns."""
        if self.layer.continued is None:
            return transfers.target(self.element.bytes, box)
        size, cut = self.element.bytes, self.body.cut
        pixel = cut.channels * size
        if self._sums is None:
            row = cut.window.ow * pixel
            self._sums = BoxPlace(self.emission.target(0, row), row, pixel, row)
        skipped = box.ox0 * pixel + box.c0 * size
        return dataclasses.replace(
            self._sums, address=self._sums.address + skipped, bytes=self._sums.bytes - skipped
        )

    def _emit_tile(
        self, placed: BoxOnArray, tile: Tile, number: int, sources: list[BoxSource], *, ends_early: bool
    ) -> None:
        """Array GOs for one tile of output channels, and the vector GOs that take its results."""
        self.packing.ready(tile)
        late, piece_bytes = (
            self.plan.late_weight_bytes(self.config) > 0,
            self.plan.late_piece_bytes(self.config),
        )
        group = self.emitter.weights(
            tile.group_address, tile.group_bytes, streamed=piece_bytes is not None, piece_bytes=piece_bytes
        )
        streamed = piece_bytes is not None and group.loaded
        weights = (group.address + (tile.address - tile.group_address)) % self.config.wm_bytes
        apart = [] if late or self._late or piece_bytes is not None else self._apart(placed, sources)
        if len(apart) > 1:
            self._emit_apart(placed, apart, tile, number, weights)
            return
        if late:
            sources = [*sources[:-1], *last_tile_apart(self.plan, sources[-1], self.config)]
        for source in sources:
            halves = late and piece_bytes is None and source is sources[-1] and self._has_halves(source)
            go = ArrayGo(tile, weights, source, streamed=streamed, in_halves=halves)
            emit_array(self.emitter, self.plan, go)
            streamed = False
        while self._late:
            self.emitter.copy(self._late.pop(0))
        parts, params = [placed], self.emission.params_of(number)
        if ends_early and (first := self._pixels_before_the_end(placed)):
            parts = [placed.part(0, first), placed.part(first, placed.pixels)]
            here = self.emission.placement(self.emission.work.output).address
            self.emitter.early = activation_span(here.offset, parts[0].target.span.end)
        for part in parts:
            for piece, repeats in self._pieces(part):
                self._drain(piece, tile.blob, params, repeats)
                params = None

    def _apart(self, placed: BoxOnArray, sources: list[BoxSource]) -> list[BoxSource]:
        """The image of a tile in parts of which VECTOR takes each one by itself, and works on other layers between
        them: the array makes as many vectors while nobody takes them."""
        if (
            not self.emitter.woven
            or not placed.linear
            or len(sources) > 1
            or self.layer.continued is not None
        ):
            return []
        return pixel_parts(self.plan, sources[0], 2 * self.config.rows)

    def _emit_apart(
        self, placed: BoxOnArray, sources: list[BoxSource], tile: Tile, number: int, weights: int
    ) -> None:
        first, params = 0, self.emission.params_of(number)
        for source in sources:
            emit_array(self.emitter, self.plan, ArrayGo(tile, weights, source))
            self._drain(placed.part(first, first + source.pixels), tile.blob, params, 1)
            first += source.pixels

    def _has_halves(self, source: BoxSource) -> bool:
        """Whether a box is one tile of pixels, which can go through the kernel in two parts."""
        window = source.window
        before = self.plan.pixels_before_the_last_tile(window.oh, window.ow, self.config)
        return before is not None and source.pixels <= self.config.rows

    def _pieces(self, part: BoxOnArray) -> list[tuple[BoxOnArray, int]]:
        """Some pixels as pieces, with the repetitions of the program that goes by channels; 1: of the usual one."""
        config, pixels = self.config, part.pixels
        if self.layer.by_channels is None or pixels < 2 * config.vector_slots:
            return [(part, 1)]
        for slots in range(config.vector_slots, config.vector_latency_cycles - 1, -1):
            if pixels % slots == 0:
                return [(part, pixels // slots)]
        if self.plan.strips or not part.linear:
            return [(part, 1)]
        repeats = pixels // config.vector_slots
        whole = repeats * config.vector_slots
        return [(part.part(0, whole), repeats), (part.part(whole, pixels), 1)]

    def _drain(self, part: BoxOnArray, blob: Blob, params: ParamUse | None, repeats: int) -> None:
        """The vector GO that takes the array's results for some pixels and a tile of output channels."""
        box, written = part.box, self._written(part, blob)
        program, vectors, slots = self.layer.program, part.pixels, self.config.vector_slots
        reads = [place.span for _, place in part.loads]
        if repeats > 1:
            assert self.layer.by_channels is not None
            program = self.layer.by_channels
            vectors = slots = part.pixels // repeats
        if self.layer.continued is not None:
            vectors, slots, repeats = box.columns, box.columns, box.rows
            if box.oy0:
                program, reads = self.layer.continued, [*reads, written]
        self.emitter.vector(
            VectorGo(
                program,
                self._streams(part, blob.first - box.c0),
                vectors=vectors,
                slots=slots,
                repeats=repeats,
                lanes=blob.channels,
                tail_lanes=blob.channels,
                reads=reads,
                writes=[written],
                consumes_array=True,
                params=params,
                table=self.emission.take_table(),
            )
        )

    def _pixels_before_the_end(self, placed: BoxOnArray) -> int:
        """Pixels of a tile that VECTOR writes while the array still works on the others; 0: no part of them."""
        rows, box = self.config.rows, placed.box
        if self.plan.strips:
            return 0
        slots = box_work(self.plan, self.config, box.rows, box.columns, 1).array_cycles
        if self.plan.layout.depthwise:
            first = placed.pixels - vectors_in_turn(placed.pixels, slots)
            first = max(rows, first - first % rows)
        else:
            tiles = -(-placed.pixels // rows)
            first = rows * (tiles - vectors_in_turn(tiles, slots, rows))
        if not placed.linear:
            first -= first % box.columns
        return first if 0 < first < placed.pixels else 0

    def _written(self, placed: BoxOnArray, blob: Blob, blocks: int = 1) -> Span:
        """What `blocks` tiles of output channels, of which `blob` is the first, write of their box."""
        size = self.element.bytes
        return placed.target.span_of((blob.first - placed.box.c0) * size, blocks * blob.channels * size)

    def _streams(self, placed: BoxOnArray, channel: int) -> dict[int, Access]:
        """Returns the streams' accesses from a channel of the box on."""
        by_columns = self.plan.strips
        streams = {
            stream: _pixels(placed.box, load.element, place, channel, by_columns=by_columns)
            for stream, (load, place) in enumerate(placed.loads)
        }
        target = placed.target
        if self.layer.continued is None:
            streams[STORE_STREAM] = _pixels(placed.box, self.element, target, channel, by_columns=by_columns)
            return streams
        dims = (Dim(placed.box.columns, target.pixel_bytes),)
        streams[STORE_STREAM] = Access(target.address + channel * self.element.bytes, self.element, dims)
        if placed.box.oy0:
            streams[len(streams) - 1] = streams[STORE_STREAM]
        return streams

    # --- many tiles by one command

    def _emit_in_blocks(self, placed: BoxOnArray, first_tile: int) -> None:
        """Weights come piece by piece: a load, an array GO and a vector GO for many tiles. They are streamed, unless
        they may come ahead, as the bus is free, and the array then reads several words of them in a cycle."""
        tiles, config = self.plan.tiles, self.config
        streamed = not self._comes_ahead(placed.pixels)
        together = config.wm_bytes // WEIGHT_PIECE_WM_PART
        if not streamed:
            together = min(together, WEIGHT_LOAD_BYTES)
        if self.plan.weights.unpacked:
            together = self.plan.tiles[0].group_bytes
        count = max(1, together // self.plan.layout.blob_bytes)
        for start in range(0, len(tiles), count):
            piece = tiles[start : start + count]
            size = sum(tile.bytes for tile in piece)
            weights = self.emitter.weights(piece[0].address, size, streamed=streamed)
            follows = streamed and weights.loaded
            go = ArrayGo(piece[0], weights.address, placed.source, len(piece), follows)
            emit_array(self.emitter, self.plan, go)
            # The last tile may have fewer channels.
            whole = sum(tile.blob.channels == piece[0].blob.channels for tile in piece)
            if self._first_use is FirstUse.CHANNELS and start + len(piece) == len(tiles):
                whole = min(whole, len(piece) - 1)
            for index, blocks in ((0, whole), (whole, len(piece) - whole)):
                if blocks:
                    self._emit_blocks(placed, piece[index].blob, first_tile + start + index, blocks)
            last = piece[-1].blob
            done = last.first + last.channels - placed.box.c0
            self._transfers.finish_channels(self.element.bytes, placed.box, placed.target, done)

    def _comes_ahead(self, pixels: int) -> bool:
        """Whether the array had better not follow weights word by word: all of them may be there before, or those that
        are not come as fast as it would read them."""
        config, emitter = self.config, self.emitter
        fits = sum(tile.bytes for tile in self.plan.tiles) <= config.wm_bytes
        fast = emitter.speed.bytes_per_cycle(config) >= config.word_bytes
        ahead = self.plan.weights.address in emitter.weights_ahead
        return ahead and (fits or fast) and self.plan.divides_rows(pixels, config)

    def _emit_blocks(self, placed: BoxOnArray, blob: Blob, first_tile: int, blocks: int) -> None:
        """The vector GO of `blocks` tiles."""

        def with_blocks(access: Access) -> Access:
            # The count may be larger than what is left of the layer; the command stays the same.
            dims = (*access.dims, Dim(len(self.plan.tiles), blob.channels * access.element.bytes))
            return dataclasses.replace(access, dims=dims)

        streams = self._streams(placed, blob.first - placed.box.c0)
        vectors = placed.box.rows * placed.box.columns * blocks
        params = self.emission.params_of(first_tile, blocks)
        self.emitter.vector(
            VectorGo(
                self.layer.program,
                {number: with_blocks(access) for number, access in streams.items()},
                vectors=vectors,
                # Tiles of other parameters are batches of their own.
                slots=min(vectors, self.config.vector_slots) if params is None else vectors // blocks,
                lanes=blob.channels,
                tail_lanes=blob.channels,
                reads=[place.span for _, place in placed.loads],
                writes=[self._written(placed, blob, blocks)],
                consumes_array=True,
                params=params,
                table=self.emission.take_table(),
            )
        )
