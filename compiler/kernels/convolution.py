"""CONV2D, DEPTHWISE_CONV2D and MATMUL on the array, with the layer's micro-program on the way out (clauses 2.3.3,
2.3.5 and 2.3.8)."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor
from tosaic.compiler.ir.errors import UnsupportedError
from tosaic.compiler.lower.layers import Layer
from tosaic.compiler.lower.translate import ELEMENT
from tosaic.compiler.schedule.tracker import Space, Span
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Instruction, Opcode, make

from .emitter import Access, Dim, Emitter
from .geometry import Window
from .operands import WINDOW, Operands
from .params import ParamBlock
from .weights import Blob, PackedWeights, WeightLayout, weight_layout


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


_MAX_PIXELS = (1 << 16) - 1
"""Of a stripe: what the turns of a stream, and the rows of an image, can count."""


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
    stored = ELEMENT[graph.tensors[layer.output].dtype].bytes
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
    layout = weight_layout(graph, operator, window, columns, weight_zp, config)
    _check_blob(operator, weight, layout, config)
    packed = pack(weight.name, layout)
    tiles = _tiles(layout, packed.address, min(GROUP_BYTES, packed.step_bytes, config.wm_bytes // 4))
    images = 1 if layout.batched else window.n
    macs = math.prod(weight.shape) * images * window.oh * window.ow
    return ConvolutionPlan(window, tiles, output.shape[-1], layout, packed, input_zp, weight_zp, bias, macs)


def _check_blob(operator: Operator, weight: Tensor, layout: WeightLayout, config: Config) -> None:
    if layout.blob_bytes > config.wm_bytes:
        raise UnsupportedError(
            f"{operator}: the weights ({weight}) of one tile of output channels take {layout.blob_bytes} bytes, "
            f"the weight memory of {config.name!r} has {config.wm_bytes}; use a larger configuration"
        )


def emit_convolution(
    graph: Graph,
    layer: Layer,
    plan: ConvolutionPlan,
    operands: Operands,
    emitter: Emitter,
    stripe_rows: int,
    params: ParamBlock,
    params_address: int,
    table: tuple[int, int] | None,
    storage: dict[str, str],
) -> None:
    """All stripes and tiles of a convolution layer."""
    window, output = plan.window, storage[layer.output]
    element = ELEMENT[graph.tensors[layer.output].dtype]
    row_elements = window.ow * plan.channels
    stripe_rows = min(stripe_rows, max(1, _MAX_PIXELS // window.ow))
    for image in range(window.n):
        for oy0 in range(0, window.oh, stripe_rows):
            oy1 = min(oy0 + stripe_rows, window.oh)
            low, high = window.input_rows(oy0, oy1)
            start, stop = window.input_span(image, low, high)
            source = operands.fetch(window.view.storage, start, stop, WINDOW)
            first = (image * window.oh + oy0) * row_elements
            last = (image * window.oh + oy1) * row_elements
            loads = []
            for load in layer.program.loads:
                name = storage[load.tensor]
                if graph.tensors[load.tensor].shape != graph.tensors[layer.output].shape:
                    raise UnsupportedError(f"{layer.root}: operand {graph.tensors[load.tensor]} is broadcast")
                size = load.element.bytes
                loads.append((load, operands.fetch(name, first * size, last * size)))
            target = operands.target(output, first * element.bytes, last * element.bytes)
            pixels = (oy1 - oy0) * window.ow
            for number, tile in enumerate(plan.tiles_of(image)):
                plan.weights.ready(tile.group_address + tile.group_bytes - plan.weights.address)
                weights = emitter.weights(tile.group_address, tile.group_bytes)
                weights += tile.address - tile.group_address
                _emit_array(plan, emitter, tile, weights, source, stop - start, oy0, oy1, low, high)
                streams = {}
                for stream, (load, address) in enumerate(loads):
                    size = load.element.bytes
                    dims = (Dim(pixels, plan.channels * size),)
                    streams[stream] = Access(address + tile.blob.first * size, load.element, dims)
                dims = (Dim(pixels, plan.channels * element.bytes),)
                streams[STORE_STREAM] = Access(target + tile.blob.first * element.bytes, element, dims)
                emitter.vector(
                    layer.program,
                    streams,
                    vectors=pixels,
                    slots=emitter.config.vector_slots,
                    lanes=tile.blob.channels,
                    tail_lanes=tile.blob.channels,
                    reads=[Span(Space.AM, a, a + (last - first) * ld.element.bytes) for ld, a in loads],
                    writes=[Span(Space.AM, target, target + (last - first) * element.bytes)],
                    consumes_array=True,
                    params=(params_address + number * params.tile_bytes, params.bias, params.scale)
                    if params.tile_bytes
                    else None,
                    table=table if number == 0 and oy0 == 0 and image == 0 else None,
                )
            operands.finish(output, target, first * element.bytes, last * element.bytes)


def _emit_array(
    plan: ConvolutionPlan,
    emitter: Emitter,
    tile: Tile,
    weights: int,
    source: int,
    source_bytes: int,
    oy0: int,
    oy1: int,
    low: int,
    high: int,
) -> None:
    window, config = plan.window, emitter.config
    y_start = oy0 * window.sy - window.top - low
    x_start = -window.left * window.ic + tile.blob.input_offset
    pitch = window.view.pitch
    setup: list[Instruction] = [
        make(
            Opcode.ARRAY_INPUT,
            address=source + y_start * pitch + x_start,
            row_bytes=window.iw * window.ic,
            height=high - low,
            input_zp=plan.input_zp,
            weight_zp=plan.weight_zp,
            unsigned_input=0,
        )
    ]
    am, wm = (
        Span(Space.AM, source, source + source_bytes),
        Span(Space.WM, weights, weights + tile.bytes),
    )
    word = weights // config.columns
    if plan.layout.depthwise:
        line = (window.ow - 1) * window.sx + window.kw
        skip = (window.kh - 1) * line + config.rows - 1
        setup += [
            _window(x_start, window.ic, y_start, 1, pitch, line),
            make(
                Opcode.ARRAY_DEPTHWISE,
                delay=line + window.kw if window.kh > 1 else 2,
                skip=skip,
                line=line,
                out_width=window.ow,
                out_height=oy1 - oy0,
                x_stride=window.sx,
                y_stride=window.sy,
                paired=0,
            ),
        ]
        advances = skip + (oy1 - oy0 - 1) * window.sy * line + (window.ow - 1) * window.sx + 1
        go = make(Opcode.ARRAY_DEPTHWISE_GO, weights=word, advances=advances, group_rows=window.kw)
    else:
        setup += [
            _window(x_start, window.sx * window.ic, y_start, window.sy, window.sy * pitch, window.ow),
            make(
                Opcode.ARRAY_KERNEL,
                ky_count=window.kh,
                ky_step=window.dy,
                ky_step_bytes=window.dy * pitch,
                run_count=plan.layout.run_count,
                run_step=plan.layout.run_step,
                chunks=plan.layout.chunks,
            ),
        ]
        go = make(Opcode.ARRAY_GO, weights=word, pixels=(oy1 - oy0) * window.ow, accumulate=0, drain=1)
    emitter.array(setup, go, am, wm)


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
