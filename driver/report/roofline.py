"""The roofline chart: MACs per cycle over MACs per byte of external memory."""

import dataclasses
import math
from collections.abc import Sequence

from tosaic.driver.layer_figures import LayerFigures

_WIDTH, _HEIGHT, _MARGIN = 900, 320, 50


@dataclasses.dataclass(frozen=True)
class RooflineDot:
    layer: LayerFigures
    x: float
    y: float
    radius: float
    tip: str


@dataclasses.dataclass(frozen=True)
class Roofline:
    """What the template draws."""

    width: int
    height: int
    margin: int
    roof: str
    """Points of the line."""
    peak_label: tuple[float, float, str]
    slope_label: tuple[float, float, str]
    columns: list[tuple[float, str]]
    """Marks of the axis of MACs per byte."""
    rows: list[tuple[float, str]]
    dots: list[RooflineDot]


def roofline(layers: Sequence[LayerFigures], peak: int, bandwidth_bytes: float) -> Roofline | None:
    """A dot for each layer with multiplications; those that move nothing are at the right edge. None without any."""
    dots = [layer for layer in layers if layer.macs and layer.cycles and layer.bytes is not None]
    if not dots:
        return None
    intensities = [layer.macs / layer.bytes for layer in dots if layer.bytes]
    ridge = peak / bandwidth_bytes
    low = min([*intensities, ridge]) / 2
    high = max([*intensities, ridge]) * 4
    floor = min(layer.macs / layer.cycles for layer in dots) / 2
    across, up = (
        (_WIDTH - 2 * _MARGIN) / math.log(high / low),
        (_HEIGHT - 2 * _MARGIN) / math.log(2 * peak / floor),
    )

    def x(intensity: float) -> float:
        return _MARGIN + across * math.log(intensity / low)

    def y(rate: float) -> float:
        return _HEIGHT - _MARGIN - up * math.log(max(rate, floor) / floor)

    start = min(low * bandwidth_bytes, peak)
    most = max(layer.cycles for layer in dots)
    return Roofline(
        _WIDTH,
        _HEIGHT,
        _MARGIN,
        " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in ((low, start), (ridge, peak), (high, peak))),
        (x(high) - 4, y(peak) - 14, f"{peak} MACs per cycle"),
        (x(low) + 4, y(start) - 10, f"{bandwidth_bytes} bytes per cycle"),
        [(x(10.0**e), f"{10.0**e:g}") for e in _decades(low, high)],
        [(y(10.0**e), f"{10.0**e:g}") for e in _decades(floor, 2 * peak)],
        [
            RooflineDot(
                layer,
                x(layer.macs / layer.bytes) if layer.bytes else _WIDTH - _MARGIN,
                y(layer.macs / layer.cycles),
                3 + 9 * math.sqrt(layer.cycles / most),
                f"{layer.name} ({layer.op}): {layer.cycles:,} cycles, {layer.macs / layer.cycles:.1f} MACs per cycle, "
                f"{layer.bytes:,} bytes",
            )
            for layer in dots
        ],
    )


def _decades(low: float, high: float) -> range:
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
