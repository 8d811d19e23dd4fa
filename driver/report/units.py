"""A bar per unit: what it did in how many of the run's cycles."""

import html
from collections.abc import Mapping, Sequence

from tosaic.driver.units import UnitFigures

_WIDTH, _LEFT, _BAR, _STEP, _KEY = 1000, 90, 22, 40, 20
_COLOURS = {"work": "#2f6fb3", "stall": "#c8553d", "wait": "#d9a441", "other": "#8fb4d6", "idle": "#e6ebf0"}
_MEANING = {
    "work": "works",
    "stall": "is held up",
    "wait": "waits for its turn",
    "other": "under way",
    "idle": "idle",
}
_LABEL_WIDTH = 8
"""Of a character, about."""


def unit_bars(figures: Sequence[UnitFigures], cycles: int) -> str:
    """An SVG; `cycles` are the run's."""
    height = _KEY + 8 + _STEP * len(figures)
    parts, x = [], _LEFT
    for kind, meaning in _MEANING.items():
        parts.append(f"<rect x={x} y=2 width=12 height=12 rx=2 fill='{_COLOURS[kind]}'></rect>")
        parts.append(f"<text x={x + 17} y=13>{meaning}</text>")
        x += 40 + _LABEL_WIDTH * len(meaning)
    scale = (_WIDTH - _LEFT - 4) / max(cycles, 1)
    for row, unit in enumerate(figures):
        y = _KEY + 8 + row * _STEP
        parts.append(f"<text x=0 y={y + 15}>{unit.unit}</text>")
        start = float(_LEFT)
        for share in unit.shares:
            width = share.cycles * scale
            text = f"{share.label} {share.cycles / cycles:.0%}"
            tip = f"{unit.unit}: {share.label}, {share.cycles:,} cycles ({share.cycles / cycles:.1%})"
            if share.kind == "work" and unit.bytes:
                tip += f", {unit.bytes:,} bytes"
            parts.append(
                f"<rect x={start:.1f} y={y} width={width:.1f} height={_BAR} fill='{_COLOURS[share.kind]}'>"
                f"<title>{html.escape(tip)}</title></rect>"
            )
            if width > _LABEL_WIDTH * len(text):
                colour = "#fff" if share.kind in ("work", "stall") else "#1c2733"
                parts.append(
                    f"<text x={start + 5:.1f} y={y + 15} style='fill:{colour};pointer-events:none'>"
                    f"{html.escape(text)}</text>"
                )
            start += width
    return f"<svg viewBox='0 0 {_WIDTH} {height}' role=img>{''.join(parts)}</svg>"


def counter_table(counters: Mapping[str, int], cycles: int) -> str:
    """All counters, folded away."""
    rows = "".join(
        f"<tr><td>{html.escape(name.replace('_', ' '))}</td><td class=n>{count:,}</td>"
        f"<td class=n>{count / max(cycles, 1):.1%}</td></tr>"
        for name, count in counters.items()
    )
    return f"<details><summary>All counters</summary><table>{rows}</table></details>"
