"""CONV2D and DEPTHWISE_CONV2D on the array, with the layer's micro-program on the way out (clauses 2.3.3 and 2.3.5)."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import Graph, Operator
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


@dataclasses.dataclass(frozen=True)
class Tile:
    """The weights of one group of output channels."""

    constant_address: int
    bytes: int
    channels: int
    """Output channels [first, first + channels)."""
    first: int
    input_offset: int
    """Bytes to add to the input address: the tile's first input channel."""
    group_address: int = 0
    """Constant address of the group of tiles that is fetched together."""
    group_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class ConvolutionPlan:
    """How a convolution maps to the array, independent of where its tensors are."""

    window: Window
    tiles: list[Tile]
    channels: int
    depthwise: bool
    """Uses the depthwise mode of the array."""
    run_count: int
    run_step: int
    chunks: int
    input_zp: int
    weight_zp: int
    bias: np.ndarray
    macs: int


GROUP_BYTES = 4096
"""Weights of neighbouring tiles are fetched together up to this size: fewer commands, and still early to start."""


def _grouped(tiles: list[Tile], limit_bytes: int) -> list[Tile]:
    """The tiles with their groups of at most so many bytes; their weights lie one after the other."""
    out: list[Tile] = []
    group: list[Tile] = []

    def close() -> None:
        size = sum(tile.bytes for tile in group)
        for tile in group:
            out.append(dataclasses.replace(tile, group_address=group[0].constant_address, group_bytes=size))
        group.clear()

    for tile in tiles:
        size = sum(member.bytes for member in group)
        apart = bool(group) and group[0].constant_address + size != tile.constant_address
        if group and (apart or size + tile.bytes > limit_bytes):
            close()
        group.append(tile)
    close()
    return out


def tile_columns(layer: Layer, graph: Graph, config: Config) -> int:
    """Output channels per tile: what one W-byte store or load of the micro-program can take."""
    stored = ELEMENT[graph.tensors[layer.output].dtype].bytes
    return config.columns // max(stored, layer.program.load_element_bytes())


def plan_convolution(graph: Graph, layer: Layer, window: Window, emitter: Emitter) -> ConvolutionPlan:
    """Chooses the mapping and places the weights in the image."""
    operator, config = layer.base, emitter.config
    assert operator is not None
    weight = graph.const(operator.inputs[1])
    bias = graph.const(operator.inputs[2])
    if weight is None or bias is None:
        raise UnsupportedError(
            f"{operator}: run-time weights ({graph.tensors[operator.inputs[1]]}) do not run yet"
        )
    input_zp = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
    weight_zp = int(graph.operand_value(operator, "weight_zp").reshape(-1)[0])
    columns = tile_columns(layer, graph, config)
    if columns < 1:
        raise UnsupportedError(
            f"{operator}: {graph.tensors[layer.output]} has elements wider than a word of this configuration"
        )
    channels = graph.tensors[operator.outputs[0]].shape[3]
    window = window.simplified()
    if operator.op == "CONV2D":
        tiles, runs = _dense_tiles(weight, window, columns, weight_zp, emitter)
        macs = int(np.prod(weight.shape)) * window.n * window.oh * window.ow
        depthwise = False
    else:
        window_weight = weight.reshape(window.kh, window.kw, *weight.shape[2:])
        depthwise = _fits_depthwise(window, window_weight, config)
        make_tiles = _depthwise_tiles if depthwise else _diagonal_tiles
        tiles, runs = make_tiles(window_weight, window, columns, weight_zp, emitter)
        macs = int(np.prod(weight.shape)) * window.n * window.oh * window.ow
    _check_blobs(operator, tiles, config)
    tiles = _grouped(tiles, min(GROUP_BYTES, config.wm_bytes // 4))
    return ConvolutionPlan(
        window, tiles, channels, depthwise, *runs, input_zp, weight_zp, bias.reshape(-1), macs
    )


def _check_blobs(operator: Operator, tiles: list[Tile], config: Config) -> None:
    largest = max(tile.bytes for tile in tiles)
    if largest > config.wm_bytes:
        raise UnsupportedError(
            f"{operator}: the weights of one tile of output channels take {largest} bytes, the weight memory of "
            f"{config.name!r} has {config.wm_bytes}; use a larger configuration"
        )


def _runs(window: Window, channels: int, columns: int) -> tuple[int, int, int]:
    """(run_count, run_step, chunks): contiguous bytes per kernel row."""
    if window.dx == 1 or window.kw == 1:
        return 1, 0, -(-window.kw * channels // columns)
    return window.kw, window.dx * channels, -(-channels // columns)


def _blob(rows: np.ndarray, columns: int, fill: int) -> bytes:
    """Weight words [k][columns] from [k][channels of the tile]."""
    out = np.full((rows.shape[0], columns), fill, np.int8)
    out[:, : rows.shape[1]] = rows
    return out.tobytes()


def _dense_tiles(
    weight: np.ndarray, window: Window, columns: int, weight_zp: int, emitter: Emitter
) -> tuple[list[Tile], tuple[int, int, int]]:
    """Weights [OC, KH, KW, IC] as words of W output channels per input byte, in the order the array reads."""
    width, oc = emitter.config.columns, weight.shape[0]
    runs = _runs(window, window.ic, width)
    lines = weight.reshape(oc, window.kh, runs[0], -1)
    padded = np.full((*lines.shape[:3], runs[2] * width), weight_zp, np.int8)
    padded[..., : lines.shape[3]] = lines
    flat = padded.reshape(oc, -1)
    tiles = []
    for first in range(0, oc, columns):
        part = flat[first : first + columns]
        raw = _blob(part.T, width, weight_zp)
        tiles.append(Tile(emitter.add_constant(raw), len(raw), part.shape[0], first, 0))
    return tiles, runs


def _diagonal_tiles(
    weight: np.ndarray, window: Window, columns: int, weight_zp: int, emitter: Emitter
) -> tuple[list[Tile], tuple[int, int, int]]:
    """Depthwise weights [KH, KW, C, M] as dense ones over the W input channels that a tile's outputs need."""
    width, (kh, kw, c, m) = emitter.config.columns, weight.shape
    tiles = []
    for first in range(0, c * m, columns):
        count = min(columns, c * m - first)
        base = first // m
        words = np.full((kh * kw, width, width), weight_zp, np.int8)
        for lane in range(count):
            channel, multiplier = divmod(first + lane, m)
            words[:, channel - base, lane] = weight[:, :, channel, multiplier].reshape(-1)
        raw = words.tobytes()
        tiles.append(Tile(emitter.add_constant(raw), len(raw), count, first, base))
    return tiles, (window.kw, window.dx * window.ic, 1)


def _fits_depthwise(window: Window, weight: np.ndarray, config: Config) -> bool:
    kh, kw, _, m = weight.shape
    line = (window.ow - 1) * window.sx + kw
    return (
        m == 1
        and kh * kw <= config.rows
        and kh <= config.line_groups
        and (window.dy == 1 or kh == 1)
        and (window.dx == 1 or kw == 1)
        and max(window.sx, window.sy) < 64
        and (kh == 1 or line + kw <= config.line_pixels)
    )


def _depthwise_tiles(
    weight: np.ndarray, window: Window, columns: int, weight_zp: int, emitter: Emitter
) -> tuple[list[Tile], tuple[int, int, int]]:
    """One word per array row, the last row's first: tap (ky, kx) in row (KH-1-ky)*KW + kx."""
    config, (kh, kw, c, _) = emitter.config, weight.shape
    tiles = []
    for first in range(0, c, columns):
        count = min(columns, c - first)
        rows = np.full((config.rows, config.columns), weight_zp, np.int8)
        for ky in range(kh):
            for kx in range(kw):
                rows[(kh - 1 - ky) * kw + kx, :count] = weight[ky, kx, first : first + count, 0]
        raw = rows[::-1].tobytes()
        raw += bytes(-len(raw) % config.columns)
        tiles.append(Tile(emitter.add_constant(raw), len(raw), count, first, first))
    return tiles, (1, 0, 1)


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
            for number, tile in enumerate(plan.tiles):
                weights = emitter.weights(tile.group_address, tile.group_bytes)
                weights += tile.constant_address - tile.group_address
                _emit_array(plan, emitter, tile, weights, source, stop - start, oy0, oy1, low, high)
                streams = {}
                for stream, (load, address) in enumerate(loads):
                    size = load.element.bytes
                    dims = (Dim(pixels, plan.channels * size),)
                    streams[stream] = Access(address + tile.first * size, load.element, dims)
                dims = (Dim(pixels, plan.channels * element.bytes),)
                streams[STORE_STREAM] = Access(target + tile.first * element.bytes, element, dims)
                emitter.vector(
                    layer.program,
                    streams,
                    vectors=pixels,
                    slots=emitter.config.vector_slots,
                    lanes=tile.channels,
                    tail_lanes=tile.channels,
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
    x_start = -window.left * window.ic + tile.input_offset
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
    if plan.depthwise:
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
                run_count=plan.run_count,
                run_step=plan.run_step,
                chunks=plan.chunks,
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
