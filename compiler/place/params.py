"""Lays out per-channel parameters and tables as they lie in activation memory."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.fuse.translate import PerChannel
from tosaic.hw.constants import BIAS_BYTES, MULTIPLIER_BYTES, NARROW_BIAS_BYTES, SCALE_BYTES
from tosaic.hw.isa import Element


@dataclasses.dataclass(frozen=True)
class ParamBlock:
    """Parameters of all tiles of a layer, one after the other."""

    data: bytes
    tile_bytes: int
    bias_bytes: int
    """Bytes of one bias; 0: there are none."""
    scale: bool


def pack_params(
    channels: int, tile_channels: int, columns: int, bias: np.ndarray | None, per_channel: PerChannel | None
) -> ParamBlock:
    """Packs for each tile of `tile_channels` channels W biases, int16 if all of the layer fit, else int32,
    then W int32 multipliers and W uint8 shifts.
    """
    parts, bias_bytes = [], 0
    if bias is not None:
        fit = np.array_equal(bias, np.asarray(bias).astype(np.int16))
        bias_bytes = NARROW_BIAS_BYTES if fit else BIAS_BYTES
    lines: list[tuple[np.ndarray, str]] = []
    if bias is not None:
        lines.append((np.broadcast_to(bias, channels), f"<i{bias_bytes}"))
    if per_channel is not None:
        lines.append((np.broadcast_to(per_channel.multipliers, channels), "<i4"))
        lines.append((np.broadcast_to(per_channel.shifts, channels), "u1"))
    for start in range(0, channels, tile_channels):
        stop = min(start + tile_channels, channels)
        parts += [_lanes(values[start:stop], columns, dtype) for values, dtype in lines]
    tile_bytes = columns * (bias_bytes + SCALE_BYTES * (per_channel is not None))
    return ParamBlock(b"".join(parts), tile_bytes, bias_bytes, per_channel is not None)


@dataclasses.dataclass(frozen=True)
class ScalePlace:
    """Where the multipliers and shifts of some neighbouring channels lie among a layer's parameters, in bytes."""

    first: int
    count: int
    multipliers: int
    shifts: int


def scale_places(
    lanes: int, tile_lanes: int, columns: int, channels: int, *, bias_bytes: int
) -> Iterator[ScalePlace]:
    """The places of all multipliers and shifts in what `pack_params` makes for `lanes` lanes, which have the channels
    again and again."""
    before = bias_bytes * columns
    tile_bytes = before + SCALE_BYTES * columns
    for tile, start in enumerate(range(0, lanes, tile_lanes)):
        place, lane, stop = tile * tile_bytes + before, start, min(start + tile_lanes, lanes)
        while lane < stop:
            first, in_tile = lane % channels, lane - start
            count = min(stop - lane, channels - first)
            yield ScalePlace(
                first, count, place + MULTIPLIER_BYTES * in_tile, place + MULTIPLIER_BYTES * columns + in_tile
            )
            lane += count


def _lanes(values: np.ndarray, columns: int, dtype: str) -> bytes:
    padded = np.zeros(columns, dtype)
    padded[: len(values)] = values
    return padded.tobytes()


def pack_line(line: np.ndarray, element: Element) -> bytes:
    """A line along the channels in elements of a type."""
    return line.astype(f"<i{element.bytes}").tobytes()


def pack_table(table: np.ndarray) -> tuple[bytes, int]:
    """(bytes, entries) of a TABLE operand: low half the value, high half the next one (int16 tables, 513 values)."""
    values = table.astype(np.int64).reshape(-1)
    if len(values) == 256:
        return (values & 0xFFFF).astype("<u4").tobytes(), 256
    entries = (values[:-1] & 0xFFFF) | ((values[1:] & 0xFFFF) << 16)
    return entries.astype("<u4").tobytes(), len(entries)
