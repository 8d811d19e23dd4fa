"""The map of the activation memory over time."""

import html
from collections.abc import Sequence

from tosaic.compiler.memory_history import MemoryBlock
from tosaic.hw.config import Config

_WIDTH, _HEIGHT, _LEFT = 900, 300, 60
_COLOURS = ("#2f6fb3", "#7fc6a4", "#d9a441", "#a05fa8", "#c0562f", "#5b8c3e", "#4aa3b5", "#8c6d4f")


def memory_map(blocks: Sequence[MemoryBlock], layers: Sequence[str], config: Config) -> str:
    """An SVG: time in layers to the right, addresses upwards, banks as lines."""
    count = max(len(layers), 1)
    step = (_WIDTH - _LEFT) / count

    def y(address: int) -> float:
        return _HEIGHT * (1 - address / config.am_bytes)

    parts = []
    colours: dict[str, str] = {}
    for block in blocks:
        colour = colours.setdefault(block.name, _COLOURS[len(colours) % len(_COLOURS)])
        last = min(block.last_layer, count - 1)
        x, width = _LEFT + block.first_layer * step, (last - block.first_layer + 1) * step
        top = y(block.address + block.bytes)
        label = (
            f"{block.name}: {block.bytes:,} bytes at {block.address:#x}, layers {block.first_layer} to {last}"
        )
        parts.append(
            f"<rect x={x:.2f} y={top:.2f} width={max(width, 0.5):.2f} height={max(y(block.address) - top, 0.7):.2f} "
            f"fill='{colour}' fill-opacity=.75 stroke='#fff' stroke-width=.4><title>{html.escape(label)}</title></rect>"
        )
    for bank in range(config.am_banks + 1):
        address = bank * config.am_bank_bytes
        at = min(max(y(address), 0), _HEIGHT)
        parts.append(
            f"<line x1={_LEFT} x2={_WIDTH} y1={at:.1f} y2={at:.1f} stroke='#9aa7b3' stroke-width=.6 />"
            f"<text x={_LEFT - 6} y={min(max(at + 4, 11), _HEIGHT - 2):.0f} text-anchor=end>{address >> 10} KiB</text>"
        )
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img>{''.join(parts)}</svg>"
