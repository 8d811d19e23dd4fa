"""CONV2D, DEPTHWISE_CONV2D and MATMUL on the array, with the layer's micro-program on the way out (clauses 2.3.3,
2.3.5 and 2.3.8)."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.emit.emitter import Access, Dim, Emitter
from tosaic.compiler.emit.operands import Operands
from tosaic.compiler.emit.pixel_runs import PixelRun, pixel_runs
from tosaic.compiler.emit.placed_params import PlacedParams
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.fuse.layers import Layer
from tosaic.compiler.fuse.translate import ELEMENT
from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.memory import OutOfMemory
from tosaic.compiler.place.pixel_groups import group_pixels
from tosaic.compiler.place.weights import (
    Blob,
    PackedWeights,
    WeightLayout,
    fits_pairs,
    odd_pitch,
    weight_layout,
)
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.compiler.tile.image_boxes import MAX_COUNT, Box, Extent, ImageBoxes, Place, Source
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Element, Instruction, Opcode, make


@dataclasses.dataclass(frozen=True)
class Tile:
    """The weights of one group of output channels."""

    address: int
    """In external memory."""
    bytes: int
    blob: Blob
    group_address: int = 0
    """Address of the group of tiles that is fetched together."""
    group_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class ConvolutionPlan:
    """How a convolution maps to the array, independent of where its tensors are."""

    window: Window
    tiles: list[Tile]
    """Of one image, or of every image one after the other when each has weights of its own."""
    channels: int
    """Of a vector's `pixels` together."""
    pixels: int
    layout: WeightLayout
    weights: PackedWeights
    input_zp: int
    weight_zp: int
    bias: np.ndarray
    macs: int

    def tiles_of(self, image: int) -> list[Tile]:
        if not self.layout.batched:
            return self.tiles
        count = len(self.layout.blobs)
        return self.tiles[image * count : (image + 1) * count]


GROUP_BYTES = 4096
"""Weights of neighbouring tiles are fetched together up to this size: fewer commands, and still early to start."""


def _tiles(layout: WeightLayout, address: int, limit_bytes: int) -> list[Tile]:
    """The tiles of the packed weights at `address`, in groups of at most so many bytes."""
    size = layout.blob_bytes
    count, per_group = layout.bytes // size, max(1, limit_bytes // size)
    tiles = []
    for number in range(count):
        first = number - number % per_group
        group_bytes = min(per_group, count - first) * size
        blob = layout.blobs[number % len(layout.blobs)]
        tiles.append(Tile(address + number * size, size, blob, address + first * size, group_bytes))
    return tiles


def tile_columns(layer: Layer, graph: Graph, config: Config) -> int:
    """Output channels per tile: what one W-byte store or load of the micro-program can take."""
    stored = 1 if layer.program.stores_digits else ELEMENT[graph.tensors[layer.output].dtype].bytes
    return config.columns // max(stored, layer.program.load_element_bytes())


def plan_convolution(
    graph: Graph,
    layer: Layer,
    window: Window,
    config: Config,
    pack: Callable[[str, WeightLayout], PackedWeights],
) -> ConvolutionPlan:
    """Chooses the mapping. `pack` brings a weight tensor into external memory as the layout wants it."""
    operator = layer.base
    assert operator is not None
    source = graph.tensors[operator.inputs[0]]
    if source.dtype is not DType.INT8:
        raise UnsupportedError(
            f"{operator}: the array multiplies bytes, and the sums of {source} with these weights do not fit the "
            "32 bits that its byte planes need; split the input channels"
        )
    matrices = operator.op == "MATMUL"
    input_zp, weight_zp = (
        int(graph.operand_value(operator, name).reshape(-1)[0])
        for name in (("A_zp", "B_zp") if matrices else ("input_zp", "weight_zp"))
    )
    bias = np.zeros(1, np.int32) if matrices else graph.operand_value(operator, "bias").reshape(-1)
    columns = tile_columns(layer, graph, config)
    if columns < 1:
        raise UnsupportedError(
            f"{operator}: {graph.tensors[layer.output]} has elements wider than a word of this configuration"
        )
    weight, output = graph.tensors[operator.inputs[1]], graph.tensors[operator.outputs[0]]
    if not matrices:
        window = window.simplified()
    macs = math.prod(weight.shape) * (window.oh * window.ow if matrices else window.n * window.oh * window.ow)
    groups, pixels, name = None, 1, weight.name
    # Sums that lie as digits keep those of a pixel together.
    if not layer.program.has_digits():
        groups = group_pixels(graph, operator, window, columns, weight_zp, config)
    if groups is not None:
        window, pixels, name, layout = groups.window, groups.pixels, groups.weights, groups.layout
    else:
        layout = weight_layout(graph, operator, window, columns, weight_zp, config)
    _check_blob(operator, weight, layout, config)
    packed = pack(name, layout)
    group_bytes = packed.group_bytes or min(GROUP_BYTES, packed.step_bytes, config.wm_bytes // 4)
    tiles = _tiles(layout, packed.address, group_bytes)
    channels = output.shape[-1] * pixels
    if pixels > 1:
        bias = np.tile(np.broadcast_to(bias, output.shape[-1]), pixels)
    return ConvolutionPlan(window, tiles, channels, pixels, layout, packed, input_zp, weight_zp, bias, macs)


def _check_blob(operator: Operator, weight: Tensor, layout: WeightLayout, config: Config) -> None:
    if layout.blob_bytes > config.wm_bytes:
        raise UnsupportedError(
            f"{operator}: the weights ({weight}) of one tile of output channels take {layout.blob_bytes} bytes, "
            f"the weight memory of {config.name!r} has {config.wm_bytes}; use a larger configuration"
        )


def convolution_boxes(plan: ConvolutionPlan, config: Config) -> ImageBoxes:
    """How the plan's output may be cut."""
    step, layout, window = plan.tiles[0].blob.channels, plan.layout, plan.window
    return ImageBoxes(
        window,
        plan.channels,
        step,
        multiplier=layout.multiplier,
        column_limit=layout.column_limit,
        stripe_pitch=odd_pitch(window.iw * window.ic, config)
        if layout.depthwise and step == config.columns and fits_pairs(window, config)
        else 0,
    )


def box_work(plan: ConvolutionPlan, config: Config, rows: int, columns: int) -> tuple[int, int]:
    """(cycles of the array, bytes of weights fetched) for all channels of so many rows and columns of output."""
    layout, window = plan.layout, plan.window
    if layout.depthwise:
        lines = (rows - 1) * window.sy + window.kh
        line = (columns - 1) * window.sx + window.kw
        return len(layout.blobs) * (lines * line + 2 * config.rows), 0
    words = len(layout.blobs) * layout.blob_bytes // config.columns
    passes = -(-rows * columns // config.rows)
    # Weights that do not stay come again for every box.
    return words * passes, layout.bytes if layout.bytes > config.wm_bytes else 0


def emit_convolution(
    graph: Graph,
    layer: Layer,
    plan: ConvolutionPlan,
    operands: Operands,
    emitter: Emitter,
    extent: Extent,
    params: PlacedParams,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """All boxes and tiles of a convolution layer."""
    cut, output = convolution_boxes(plan, emitter.config), storage[layer.output]
    element = ELEMENT[graph.tensors[layer.output].dtype]
    if layer.program.has_digits() and extent.channels < plan.channels:
        raise OutOfMemory(f"{layer.root}: a pixel with all its channels does not fit the activation memory")
    for load in layer.program.loads:
        if graph.tensors[load.tensor].shape != graph.tensors[layer.output].shape:
            raise UnsupportedError(f"{layer.root}: operand {graph.tensors[load.tensor]} is broadcast")
    slots = emitter.config.vector_slots
    boxes = list(cut.boxes(extent))
    in_blocks = (
        _streams(plan, extent) and len(boxes) == 1 and fits_blocks(plan, layer, boxes[0], emitter.config)
    )
    for box in boxes:
        tiles = plan.tiles_of(box.image)[box.c0 // cut.step : -(-box.c1 // cut.step)]
        params.bring(operands, box.c0 // cut.step, len(tiles))
        source = cut.source(box, extent, operands)
        loads = [
            (load, cut.operand(storage[load.tensor], load.element.bytes, box, operands))
            for load in layer.program.loads
        ]
        target = cut.target(output, element.bytes, box, operands)
        if in_blocks:
            work = BlockWork(plan, layer, emitter, box, source, loads, (element, target), params, table)
            work.emit(box.c0 // cut.step)
            cut.finish(output, element.bytes, box, target, operands)
            continue
        for number, tile in enumerate(tiles, box.c0 // cut.step):
            plan.weights.ready(tile.group_address + tile.group_bytes - plan.weights.address)
            weights, _ = emitter.weights(tile.group_address, tile.group_bytes)
            weights = (weights + tile.address - tile.group_address) % emitter.config.wm_bytes
            emit_array(plan, emitter, tile, weights, source)
            reads = [Span(Space.AM, place.address, place.address + place.bytes) for _, place in loads]
            for run in pixel_runs(box, layer.program, [target, *(place for _, place in loads)], slots):
                channel = tile.blob.first - box.c0
                streams = {
                    stream: run.read(load, place, channel) for stream, (load, place) in enumerate(loads)
                }
                streams[STORE_STREAM] = run.write(element, target, channel)
                emitter.vector(
                    layer.program,
                    streams,
                    vectors=run.count,
                    slots=run.slots,
                    lanes=tile.blob.channels,
                    tail_lanes=tile.blob.channels,
                    reads=reads,
                    writes=[Span(Space.AM, target.address, target.address + target.bytes)],
                    consumes_array=True,
                    params=params.of(number) if run.first else None,
                    table=table,
                )
                table = None
        cut.finish(output, element.bytes, box, target, operands)


def _streams(plan: ConvolutionPlan, extent: Extent) -> bool:
    """Whether the array can follow the weights word by word as they come: every group of tiles that is fetched is used
    by the very tiles that come next, each word in its turn.

    Only layers in blocks do so. With many tiles of pixels an array that has begun could wait for weights behind a
    LOAD_WAIT that waits for the array: transpose_conv2d_3x1_5x9x33x1_i16xi8 of TOSA's suite hung so on the RTL.
    """
    return (
        not plan.layout.depthwise
        and not plan.layout.batched
        and plan.weights.work is None
        and not plan.weights.group_bytes
        and extent.channels >= plan.channels
        and all(tile.blob.chunks in (0, plan.layout.chunks) for tile in plan.tiles)
    )


def fits_blocks(plan: ConvolutionPlan, layer: Layer, box: Box, config: Config) -> bool:
    """Whether the weights of a layer that is one box are used once each, by one tile of pixels: then one command does
    many output channels."""
    pixels, first = box.rows * box.columns, plan.tiles[0].blob
    return (
        not layer.program.has_digits()
        and plan.window.n == 1
        and pixels <= min(config.rows, config.vector_slots)
        and len(plan.tiles) <= MAX_COUNT
        and all(tile.blob.input_offset == first.input_offset for tile in plan.tiles)
    )


@dataclasses.dataclass(frozen=True)
class BlockWork:
    """A layer whose weights are streamed, piece by piece: a load, an array GO and a vector GO for many tiles."""

    plan: ConvolutionPlan
    layer: Layer
    emitter: Emitter
    box: Box
    source: Source
    loads: list[tuple[Load, Place]]
    target: tuple[Element, Place]
    params: PlacedParams
    table: tuple[int, int] | None

    def emit(self, first_tile: int) -> None:
        """All tiles, from `first_tile` of the layer on."""
        tiles, config = self.plan.tiles, self.emitter.config
        # A piece of the weight memory is read while others are filled.
        count = max(1, config.wm_bytes // 4 // self.plan.layout.blob_bytes)
        places = [self.target[1], *(place for _, place in self.loads)]
        (run,) = pixel_runs(self.box, self.layer.program, places, config.vector_slots)
        table = self.table
        for start in range(0, len(tiles), count):
            piece = tiles[start : start + count]
            size = sum(tile.bytes for tile in piece)
            weights, missing = self.emitter.weights(piece[0].address, size, streamed=True)
            emit_array(
                self.plan, self.emitter, piece[0], weights, self.source, blocks=len(piece), streamed=missing
            )
            # The last tile may have fewer channels.
            whole = sum(tile.blob.channels == piece[0].blob.channels for tile in piece)
            for index, blocks in ((0, whole), (whole, len(piece) - whole)):
                if blocks:
                    self._vector(run, piece[index].blob, first_tile + start + index, blocks, table)
                    table = None

    def _vector(
        self, run: PixelRun, blob: Blob, number: int, blocks: int, table: tuple[int, int] | None
    ) -> None:
        channel = blob.first - self.box.c0
        element, target = self.target

        def with_blocks(access: Access) -> Access:
            # The count may be larger than what is left of the layer; the command stays the same.
            dims = (*access.dims, Dim(len(self.plan.tiles), blob.channels * access.element.bytes))
            return dataclasses.replace(access, dims=dims)

        streams = {
            stream: with_blocks(run.read(load, place, channel))
            for stream, (load, place) in enumerate(self.loads)
        }
        streams[STORE_STREAM] = with_blocks(run.write(element, target, channel))
        self.emitter.vector(
            self.layer.program,
            streams,
            vectors=run.count * blocks,
            slots=run.count,
            lanes=blob.channels,
            tail_lanes=blob.channels,
            reads=[Span(Space.AM, place.address, place.address + place.bytes) for _, place in self.loads],
            writes=[Span(Space.AM, target.address, target.address + target.bytes)],
            consumes_array=True,
            params=self.params.of(number),
            param_blocks=blocks,
            table=table,
        )


def emit_array(
    plan: ConvolutionPlan,
    emitter: Emitter,
    tile: Tile,
    weights: int,
    source: Source,
    *,
    blocks: int = 1,
    streamed: bool = False,
) -> None:
    """`blocks` tiles of output channels of a box, from `tile` on. Steps that are never taken are zero: they might
    not fit their fields."""
    window, config = source.window, emitter.config
    x_start = -window.left * window.ic + tile.blob.input_offset - source.channel
    pitch = window.view.pitch

    def wrapped(step: int) -> int:
        # Addresses wrap at the end of the memory, a power of two.
        return step if abs(step) < 1 << 23 else step % config.am_bytes

    setup: list[Instruction] = [
        make(
            Opcode.ARRAY_INPUT,
            address=wrapped(source.address - window.top * pitch + x_start),
            row_bytes=window.iw * window.ic,
            height=window.ih,
            input_zp=plan.input_zp,
            weight_zp=plan.weight_zp,
            unsigned_input=0,
        )
    ]
    wm = emitter.weight_spans(weights, blocks * tile.bytes)
    word = weights // config.columns
    if plan.layout.depthwise:
        line = (window.ow - 1) * window.sx + window.kw
        # Rows 2i and 2i + 1 enter together when a pixel's words are an even and an odd one.
        together = 2 if _pairs(source, x_start, config) else 1
        skip = (window.kh - 1) // together * line + config.rows - 1
        y_stride = window.sy // together
        setup += [
            _window(x_start, window.ic, -window.top, together, together * pitch, line),
            make(
                Opcode.ARRAY_DEPTHWISE,
                delay=line + together * window.kw if window.kh > 1 else 2,
                skip=skip,
                line=line,
                out_width=window.ow,
                out_height=window.oh,
                x_stride=window.sx,
                y_stride=y_stride,
                paired=together == 2,
            ),
        ]
        advances = skip + (window.oh - 1) * y_stride * line + (window.ow - 1) * window.sx + 1
        go = make(Opcode.ARRAY_DEPTHWISE_GO, weights=word, advances=advances, group_rows=window.kw)
    else:
        x_step = window.sx * window.ic if window.ow > 1 else 0
        y_step = window.sy if window.oh > 1 else 0
        dy = window.dy if window.kh > 1 else 0
        run_step = window.dx * window.ic if plan.layout.run_count > 1 else 0
        setup += [
            _window(x_start, x_step, -window.top, y_step, wrapped(y_step * pitch), window.ow),
            make(
                Opcode.ARRAY_KERNEL,
                ky_count=window.kh,
                ky_step=dy,
                ky_step_bytes=wrapped(dy * pitch),
                run_count=plan.layout.run_count,
                run_step=run_step,
                chunks=tile.blob.chunks or plan.layout.chunks,
            ),
        ]
        go = make(
            Opcode.ARRAY_GO,
            weights=word,
            pixels=window.oh * window.ow,
            accumulate=0,
            drain=1,
            more_blocks=blocks - 1,
            streamed=streamed,
        )
    emitter.array(setup, go, source.span, wm, streamed=streamed)


def _pairs(source: Source, x_start: int, config: Config) -> bool:
    """Whether the depthwise mode takes two rows of this image per advance."""
    window, word_bytes = source.window, config.word_bytes
    pitch = window.view.pitch
    aligned = (source.address - window.top * pitch + x_start) % word_bytes == 0
    return aligned and pitch % (2 * word_bytes) == word_bytes and fits_pairs(window, config)


def _window(
    x_start: int, x_step: int, y_start: int, y_step: int, y_step_bytes: int, width: int
) -> Instruction:
    return make(
        Opcode.ARRAY_WINDOW,
        x_start=x_start,
        x_step=x_step,
        y_start=y_start,
        y_step=y_step,
        y_step_bytes=y_step_bytes,
        width=width,
    )
