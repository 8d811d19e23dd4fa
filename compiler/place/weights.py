"""How weights lie in weight memory: for each tile of output channels a blob of words, as a Move of the weight tensor.

The same Move packs constants at compile time and everything else on the machine (see `packer.py`). Lanes of a
word behind the tile's channels are left as they are: nobody stores what they compute.
"""

import dataclasses
import itertools
import math

from tosaic.compiler.fuse.moves import Move, MovedBox
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.place.tap_passes import TapPass, output_limits, tap_passes, tap_rows
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

MAX_COUNT = largest(Opcode.ARRAY_WINDOW, "width")
"""The largest number of rows or columns of a window's output."""


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
    run_count: int
    chunks: int
    batched: bool = False
    gradual: bool = False
    """The first blobs can be packed as fast by themselves as with all others."""
    multiplier: int | None = None
    """Output channels per input channel of a depthwise convolution; None: each one needs all input channels."""
    column_limit: int = MAX_COUNT
    """The largest number of output columns that the array takes at a time."""
    output_limit: int = MAX_COUNT * MAX_COUNT
    """The largest number of outputs of a channel that it takes at a time."""
    passes: tuple[TapPass, ...] = ()
    """The GOs of the depthwise mode."""

    @property
    def depthwise(self) -> bool:
        """Whether they are for the depthwise mode of the array."""
        return bool(self.passes)

    @property
    def bytes(self) -> int:
        return math.prod(self.move.shape)


@dataclasses.dataclass(frozen=True)
class StoredWeights:
    """Where the elements of a weight tensor are: in tensor `name`, `strides` elements apart along each axis."""

    name: str
    strides: tuple[int, ...]


def weight_layout(
    graph: Graph,
    operator: Operator,
    window: Window,
    columns: int,
    weight_zp: int,
    config: Config,
    stored: StoredWeights | None = None,
) -> WeightLayout:
    """Layout for `columns` output channels per tile. `stored`: what a MATMUL reads instead of its operand."""
    name = operator.inputs[1]
    shape = graph.tensors[name].shape
    if operator.op == "MATMUL":
        n, _, width = shape
        stored = stored or StoredWeights(name, tuple(dense_strides(shape, 1)))
        matrix, byte, channel = stored.strides
        name = stored.name
        return _dense(name, window, (n, width), (matrix, channel, 0, byte), columns, weight_zp, config)
    if operator.op == "CONV2D":
        oc, kh, kw, ic = shape
        strides = (0, kh * kw * ic, _run_bytes(window), 1)
        return _dense(name, window, (1, oc), strides, columns, weight_zp, config)
    passes = tap_passes(window, config) if shape[3] == 1 else []
    if passes:
        return _tap_stationary(name, window, passes, columns, weight_zp, config)
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
        parts.append(MovedBox(name, (0,) * 5, count, 0, steps))
    if rest:
        offset = (oc - rest) * channel
        parts.append(MovedBox(name, (0, tiles - 1, 0, 0, 0), (n, 1, rows, run_bytes, rest), offset, steps))
    # In an image one pixel wide the bytes behind a run are outside and count as zero, whatever their weights are.
    masked = (window.iw, window.kw, window.left) == (1, 1, 0)
    if depth > run_bytes and not masked:
        behind = (n, tiles, rows, depth - run_bytes, width)
        parts.append(MovedBox(None, (0, 0, 0, run_bytes, 0), behind, fill=weight_zp))
    return WeightLayout(
        Move((n, tiles, rows, depth, width), tuple(parts)),
        [Blob(first, min(columns, oc - first), 0) for first in range(0, oc, columns)],
        rows * depth * width,
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
    parts = [MovedBox(None, (0,) * 4, shape, fill=weight_zp)]
    # Channel t * columns + lane meets the same input channel of its tile in each tile t, when the tiles begin alike.
    alike = columns % multiplier == 0
    for tile in range(1 if alike else tiles):
        for lane in range(min(columns, oc - tile * columns)):
            channel = tile * columns + lane
            row = channel // multiplier - tile * columns // multiplier
            count = -(-(oc - lane) // columns) if alike else 1
            low, counts = (tile, 0, row, lane), (count, taps, 1, 1)
            parts.append(MovedBox(name, low, counts, channel, (columns, oc, 0, 0)))
    blobs = [Blob(first, min(columns, oc - first), first // multiplier) for first in range(0, oc, columns)]
    size = taps * width * width
    move = Move(shape, tuple(parts))
    return WeightLayout(move, blobs, size, window.kw, 1, multiplier=multiplier)


def odd_pitch(row_bytes: int, config: Config) -> int:
    """Bytes from row to row, so that a pixel's words in successive rows are an even and an odd one."""
    words = row_bytes // config.word_bytes
    return (words + 1 - words % 2) * config.word_bytes


def _tap_stationary(
    name: str, window: Window, passes: list[TapPass], columns: int, weight_zp: int, config: Config
) -> WeightLayout:
    """Lays out, for each GO, one word per array row that is not idle, the last row's first: tap (y, x) of a
    GO is in row (KH - 1 - y) * KW + x, with the KH and KW that it sees.
    """
    c, tiles, rest = window.ic, -(-window.ic // columns), window.ic % columns
    rows = tap_rows(passes[0].window(window), passes, config)
    shape = (tiles, len(passes) * rows, config.columns)
    parts = []
    for number, taps in enumerate(passes):
        seen, start = taps.window(window), number * rows
        # Between the columns of a dilated kernel there are rows without a tap.
        unused = rows - (seen.kh * seen.kw if seen.dx == 1 else 0)
        if unused:
            parts.append(MovedBox(None, (0, start, 0), (tiles, unused, config.columns), fill=weight_zp))
        run = seen.kw if seen.dx == 1 else 1
        for y, x in itertools.product(range(seen.kh), range(0, seen.kw, run)):
            last = x + run - 1
            word = start + rows - 1 - (seen.kh - 1 - y) * seen.reach_columns - last * seen.dx
            ky, kx = taps.y.first + y * taps.y.step, taps.x.first + last * taps.x.step
            offset, step = (ky * window.kw + kx) * c, -taps.x.step * c
            if tiles > (rest > 0):
                count = (tiles - (rest > 0), run, columns)
                parts.append(MovedBox(name, (0, word, 0), count, offset, (columns, step, 1)))
            if rest:
                low, count = (tiles - 1, word, 0), (1, run, rest)
                parts.append(MovedBox(name, low, count, offset + c - rest, (columns, step, 1)))
    blobs = [Blob(first, min(columns, c - first), first) for first in range(0, c, columns)]
    column_limit, output_limit = output_limits(window, passes, config)
    return WeightLayout(
        Move(shape, tuple(parts)),
        blobs,
        math.prod(shape[1:]),
        1,
        1,
        multiplier=1,
        column_limit=column_limit,
        output_limit=output_limit,
        passes=tuple(passes),
    )
