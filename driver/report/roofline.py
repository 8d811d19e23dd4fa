"""The roofline chart: MACs per cycle over MACs per byte of external memory."""

import html
import math
from collections.abc import Sequence

from tosaic.hw.config import Config

from .layers import LayerFigures

_WIDTH, _HEIGHT, _MARGIN = 900, 320, 50


def roofline(layers: Sequence[LayerFigures], config: Config, bandwidth_bytes: int) -> str:
    """An SVG; layers that move nothing are at the right edge."""
    dots = [layer for layer in layers if layer.macs and layer.cycles]
    peak = config.macs_per_cycle
    intensities = [layer.macs / layer.bytes for layer in dots if layer.bytes]
    ridge = peak / bandwidth_bytes
    low = min([*intensities, ridge]) / 2
    high = max([*intensities, ridge]) * 4
    floor = min(layer.macs / layer.cycles for layer in dots) / 2

    def x(intensity: float) -> float:
        return _MARGIN + (_WIDTH - 2 * _MARGIN) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return (
            _HEIGHT
            - _MARGIN
            - (_HEIGHT - 2 * _MARGIN) * math.log(max(rate, floor) / floor) / math.log(2 * peak / floor)
        )

    roof = [(low, min(low * bandwidth_bytes, peak)), (ridge, peak), (high, peak)]
    points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in roof)
    parts = [
        f"<polyline points='{points}' fill=none stroke='#c0562f' stroke-width=2 />",
        f"<text x={x(high) - 4:.0f} y={y(peak) - 6:.0f} text-anchor=end>{peak} MACs per cycle</text>",
        f"<text x={x(low) + 4:.0f} y={y(min(low * bandwidth_bytes, peak)) - 8:.0f}>"
        f"{bandwidth_bytes} bytes per cycle</text>",
        f"<text x={_WIDTH / 2} y={_HEIGHT - 12} text-anchor=middle>MACs per byte of external memory</text>",
        f"<text transform='translate(14 {_HEIGHT / 2}) rotate(-90)' text-anchor=middle>MACs per cycle</text>",
    ]
    for exponent in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        at = x(10.0**exponent)
        parts.append(
            f"<text x={at:.0f} y={_HEIGHT - _MARGIN + 16} text-anchor=middle>{10.0**exponent:g}</text>"
        )
    for exponent in range(math.ceil(math.log10(floor)), math.floor(math.log10(2 * peak)) + 1):
        parts.append(
            f"<text x={_MARGIN - 6} y={y(10.0**exponent) + 4:.0f} text-anchor=end>{10.0**exponent:g}</text>"
        )
    most = max(layer.cycles for layer in dots)
    for layer in dots:
        rate = layer.macs / layer.cycles
        at = x(layer.macs / layer.bytes) if layer.bytes else _WIDTH - _MARGIN
        radius = 3 + 9 * math.sqrt(layer.cycles / most)
        label = f"{layer.name} ({layer.op}): {layer.cycles:,} cycles, {rate:.1f} MACs per cycle, {layer.bytes:,} bytes"
        parts.append(
            f"<circle cx={at:.1f} cy={y(rate):.1f} r={radius:.1f} fill='#2f6fb3' fill-opacity=.55>"
            f"<title>{html.escape(label)}</title></circle>"
        )
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img>{''.join(parts)}</svg>"
