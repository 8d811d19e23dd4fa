"""How weights lie in weight memory: for each tile of output channels a blob of words, as a Move of the weight tensor.

The same Move packs constants at compile time and everything else on the machine (see `packer.py`). Lanes of a
word behind the tile's channels are left as they are: nobody stores what they compute.
"""

import dataclasses
import math

from tosaic.compiler.fuse.moves import Move, Part
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.place.geometry import Window
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

MAX_COUNT = largest(Opcode.ARRAY_WINDOW, "width")
"""Most rows or columns of a window's output."""


@dataclasses.dataclass(frozen=True)
class Blob:
    """The weights of one tile: output channels [first, first + channels)."""

    first: int
    channels: int
    input_offset: int
    """Bytes to add to the input address: the tile's first input channel, or its first pixel."""
    chunks: int = 0
    """Words per run, if they are not as many as the layout's."""


@dataclasses.dataclass(frozen=True)
class WeightLayout:
    """Blobs of equal size one after the other. `move` makes them from the weight tensor."""

    move: Move
    blobs: list[Blob]
    """Those of one image; `batched` weights repeat them for each."""
    blob_bytes: int
    depthwise: bool
    """For the depthwise mode of the array."""
    run_count: int
    chunks: int
    batched: bool = False
    gradual: bool = False
    """The first blobs can be packed as fast by themselves as with all others."""
    multiplier: int | None = None
    """Output channels per input channel of a depthwise convolution; None: each one needs all input channels."""
    column_limit: int = MAX_COUNT
    """Most output columns that the array takes at a time."""

    @property
    def bytes(self) -> int:
        return math.prod(self.move.shape)


def weight_layout(
    graph: Graph, operator: Operator, window: Window, columns: int, weight_zp: int, config: Config
) -> WeightLayout:
    """Layout for `columns` output channels per tile."""
    name = operator.inputs[1]
    shape = graph.tensors[name].shape
    if operator.op == "MATMUL":
        n, c, width = shape
        return _dense(name, window, (n, width), (c * width, 1, 0, width), columns, weight_zp, config)
    if operator.op == "CONV2D":
        oc, kh, kw, ic = shape
        strides = (0, kh * kw * ic, _run_bytes(window), 1)
        return _dense(name, window, (1, oc), strides, columns, weight_zp, config)
    if _fits_depthwise(window, shape[3], config):
        return _tap_stationary(name, window, columns, weight_zp, config)
    return _diagonal(name, window, shape[3], columns, weight_zp, config)


def _run_bytes(window: Window) -> int:
    """Contiguous bytes per kernel row that one run covers."""
    return window.kw * window.ic if window.dx == 1 or window.kw == 1 else window.ic


def _dense(
    name: str,
    window: Window,
    counts: tuple[int, int],
    strides: tuple[int, int, int, int],
    columns: int,
    weight_zp: int,
    config: Config,
) -> WeightLayout:
    """Words of W output channels per input byte, in the order the array reads. `counts`: matrices, output channels;
    `strides` in elements of the weight tensor: from matrix to matrix, channel to channel, run to run, byte to byte."""
    width, (n, oc), (matrix, channel, run, byte) = config.columns, counts, strides
    run_bytes = _run_bytes(window)
    runs = 1 if run_bytes == window.kw * window.ic else window.kw
    chunks = -(-run_bytes // width)
    rows, depth = window.kh * runs, chunks * width
    tiles, rest = -(-oc // columns), oc % columns
    steps = (matrix, columns * channel, run, byte, channel)
    parts = []
    if tiles > (rest > 0):
        count = (n, tiles - (rest > 0), rows, run_bytes, columns)
        parts.append(Part(name, (0,) * 5, count, 0, steps))
    if rest:
        offset = (oc - rest) * channel
        parts.append(Part(name, (0, tiles - 1, 0, 0, 0), (n, 1, rows, run_bytes, rest), offset, steps))
    # In an image one pixel wide the bytes behind a run are outside and count as zero, whatever their weights are.
    masked = (window.iw, window.kw, window.left) == (1, 1, 0)
    if depth > run_bytes and not masked:
        behind = (n, tiles, rows, depth - run_bytes, width)
        parts.append(Part(None, (0, 0, 0, run_bytes, 0), behind, fill=weight_zp))
    return WeightLayout(
        Move((n, tiles, rows, depth, width), tuple(parts)),
        [Blob(first, min(columns, oc - first), 0) for first in range(0, oc, columns)],
        rows * depth * width,
        False,
        runs,
        chunks,
        batched=n > 1,
        gradual=True,
    )


def _diagonal(
    name: str, window: Window, multiplier: int, columns: int, weight_zp: int, config: Config
) -> WeightLayout:
    """Depthwise weights [KH, KW, C, M] as dense ones over the W input channels that a tile's outputs need."""
    width, taps, oc = config.columns, window.kh * window.kw, window.ic * multiplier
    tiles = -(-oc // columns)
    shape = (tiles, taps, width, width)
    parts = [Part(None, (0,) * 4, shape, fill=weight_zp)]
    # Channel t * columns + lane meets the same input channel of its tile in each tile t, when the tiles begin alike.
    alike = columns % multiplier == 0
    for tile in range(1 if alike else tiles):
        for lane in range(min(columns, oc - tile * columns)):
            channel = tile * columns + lane
            row = channel // multiplier - tile * columns // multiplier
            count = -(-(oc - lane) // columns) if alike else 1
            low, counts = (tile, 0, row, lane), (count, taps, 1, 1)
            parts.append(Part(name, low, counts, channel, (columns, oc, 0, 0)))
    blobs = [Blob(first, min(columns, oc - first), first // multiplier) for first in range(0, oc, columns)]
    size = taps * width * width
    move = Move(shape, tuple(parts))
    return WeightLayout(move, blobs, size, False, window.kw, 1, multiplier=multiplier)


_NARROWEST_COLUMNS = 16
"""Where the delay line is too short for fewer output columns than this, depthwise mode reads too much twice."""


def _depthwise_columns(window: Window, config: Config) -> int:
    """Most output columns for which an image row fits the delay line, and its fields."""
    line = MAX_COUNT if window.kh == 1 else config.line_pixels - window.kw
    return max(0, (line - window.kw) // window.sx + 1)


def _fits_depthwise(window: Window, multiplier: int, config: Config) -> bool:
    return (
        multiplier == 1
        and window.kh * window.kw <= config.rows
        and window.kh <= config.line_groups
        and (window.dy == 1 or window.kh == 1)
        and (window.dx == 1 or window.kw == 1)
        and max(window.sx, window.sy) < 64
        and _depthwise_columns(window, config) >= min(window.ow, _NARROWEST_COLUMNS)
    )


def fits_pairs(window: Window, config: Config) -> bool:
    """Whether the depthwise mode can take a channel's image rows two at a time: with an even stride no output begins
    between them, and an odd kernel ends with a first row. Pixels are whole words."""
    line = (window.ow - 1) * window.sx + window.kw
    return (
        _fits_depthwise(window, 1, config)
        and window.kh % 2 == 1
        and window.kh > 1
        and window.sy % 2 == 0
        and window.iw > 1
        and window.ic % config.word_bytes == 0
        and line + 2 * window.kw <= config.line_pixels
    )


def odd_pitch(row_bytes: int, config: Config) -> int:
    """Bytes from row to row, so that a pixel's words in successive rows are an even and an odd one."""
    words = row_bytes // config.word_bytes
    return (words + 1 - words % 2) * config.word_bytes


def _tap_stationary(name: str, window: Window, columns: int, weight_zp: int, config: Config) -> WeightLayout:
    """One word per array row, the last row's first: tap (ky, kx) in row (KH-1-ky)*KW + kx."""
    c, kh, kw = window.ic, window.kh, window.kw
    tiles, rest = -(-c // columns), c % columns
    unused = config.rows - kh * kw
    shape = (tiles, config.rows, config.columns)
    parts = []
    if unused:
        parts.append(Part(None, (0, 0, 0), (tiles, unused, config.columns), fill=weight_zp))
    for ky in range(kh):
        row, offset = unused + ky * kw, (ky * kw + kw - 1) * c
        if tiles > (rest > 0):
            count = (tiles - (rest > 0), kw, columns)
            parts.append(Part(name, (0, row, 0), count, offset, (columns, -c, 1)))
        if rest:
            low = (tiles - 1, row, 0)
            parts.append(Part(name, low, (1, kw, rest), offset + c - rest, (columns, -c, 1)))
    blobs = [Blob(first, min(columns, c - first), first) for first in range(0, c, columns)]
    return WeightLayout(
        Move(shape, tuple(parts)),
        blobs,
        config.rows * config.columns,
        True,
        1,
        1,
        multiplier=1,
        column_limit=_depthwise_columns(window, config),
    )
