"""Convolutions whose output channels do not fill their tiles: neighbouring pixels of a row share vectors.

The output [OH, OW, C] is [OH, OW/p, p*C] in memory, byte for byte: a convolution with p times the stride and p shifted
copies of each kernel. Its tiles are cut out of p*C channels; each one looks at the pixels that its channels belong to,
so that only a tile that several pixels share has longer runs. Twice 40 channels are 5 tiles of 16, and not 2 times 3.
p is any divisor of OW up to the array's columns, or the least one above them.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.cost.array import full_rows_cycles
from tosaic.compiler.fuse.moves import Move, MovedBox
from tosaic.compiler.ir import Tensor
from tosaic.compiler.machine import group_sizes
from tosaic.compiler.machine_numbers import PIXEL_GROUP_SHARE, PIXEL_GROUP_WM_PART
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.weights import Blob, WeightLayout
from tosaic.compiler.tile.mapping import Asked, Mapping, Offer, offers
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class _Tile:
    """Channels [first, last) of the group; the pixels they belong to begin at `pixel`."""

    first: int
    last: int
    pixel: int
    kw: int
    """Columns of the kernel that slides over all of its pixels."""
    chunks: int


@offers
def pixel_groups(asked: Asked) -> Iterator[Offer]:
    """For a CONV2D with constant weights: only these can be arranged so."""
    graph, operator, config, window = asked.graph, asked.operator, asked.config, asked.window.simplified()
    weight = graph.tensors[operator.inputs[1]]
    if operator.op != "CONV2D" or weight.data is None or not (window.dx == 1 or window.kw == 1):
        return
    channels = weight.shape[0]
    for pixels in group_sizes(window.ow, config.columns):
        tiles = _tiles(window, channels, pixels, config.columns, config)
        cycles, size = _on_array(window, pixels, tiles, config), _blob_bytes(window, tiles, config)
        worth: float = cycles
        fits = size <= config.wm_bytes // PIXEL_GROUP_WM_PART
        if pixels & (pixels - 1):
            # Many more weights, which must come and stay.
            worth = (cycles + len(tiles) * size / config.word_bytes) / PIXEL_GROUP_SHARE
            fits = len(tiles) * size <= config.wm_bytes
        if fits:
            make = functools.partial(_mapping, weight, window, pixels, tiles, asked.weight_zp, config)
            yield Offer(worth, asked.image_cycles, make)


def _mapping(
    weight: Tensor, window: Window, pixels: int, tiles: list[_Tile], weight_zp: int, config: Config
) -> Mapping:
    assert weight.data is not None
    # The window may be simplified: an image of one column is one row.
    kernel = weight.data.reshape(weight.shape[0], window.kh, window.kw, window.ic)
    name = f"{weight.name}'{pixels} pixels"
    shape = (len(tiles), _blob_bytes(window, tiles, config))
    wide = dataclasses.replace(
        window, ow=window.ow // pixels, kw=window.kw + (pixels - 1) * window.sx, sx=window.sx * pixels, dx=1
    )
    blobs = [
        Blob(tile.first, tile.last - tile.first, tile.pixel * window.sx * window.ic, tile.chunks)
        for tile in tiles
    ]
    move = Move(shape, (MovedBox(name, (0, 0), shape, 0, (shape[1], 1)),))
    layout = WeightLayout(move, blobs, shape[1], 1, max(tile.chunks for tile in tiles))
    return Mapping(wide, layout, pixels, (name, lambda: _packed(kernel, window, tiles, weight_zp, config)))


def _blob_bytes(window: Window, tiles: list[_Tile], config: Config) -> int:
    return window.kh * max(tile.chunks for tile in tiles) * config.columns**2


def _tiles(window: Window, channels: int, pixels: int, columns: int, config: Config) -> list[_Tile]:
    found = []
    for first in range(0, pixels * channels, columns):
        last = min(first + columns, pixels * channels)
        pixel = first // channels
        kw = window.kw + ((last - 1) // channels - pixel) * window.sx
        found.append(_Tile(first, last, pixel, kw, math.ceil(kw * window.ic / config.columns)))
    return found


def _on_array(window: Window, pixels: int, tiles: list[_Tile], config: Config) -> int:
    steps = window.kh * sum(tile.chunks for tile in tiles)
    return full_rows_cycles(steps, window.n * window.oh * (window.ow // pixels), config)


def _packed(
    weight: np.ndarray, window: Window, tiles: list[_Tile], weight_zp: int, config: Config
) -> np.ndarray:
    """[tiles, bytes of a blob]: per tile [KH][chunk][byte][channel], weight_zp where there is no weight."""
    width, (oc, kh, kw, ic) = config.columns, weight.shape
    packed = np.full((len(tiles), _blob_bytes(window, tiles, config)), weight_zp, np.int8)
    for number, tile in enumerate(tiles):
        blob = np.full((kh, tile.chunks * width, width), weight_zp, np.int8)
        for lane in range(tile.last - tile.first):
            pixel, channel = divmod(tile.first + lane, oc)
            start = (pixel - tile.pixel) * window.sx * ic
            blob[:, start : start + kw * ic, lane] = weight[channel].reshape(kh, kw * ic)
        packed[number, : blob.size] = blob.reshape(-1)
    return packed
