"""Draws docs/figures/waves.svg: what `--wave` records of a small network on the RTL.

python bench/wave_picture.py
"""

import pathlib
import tempfile
from html import escape

import numpy as np
import pywellen

import tosaic

ROOT = pathlib.Path(__file__).parents[1]
PICTURE = ROOT / "docs/figures/waves.svg"
CYCLE_TICKS = 10
UNITS = ("LOAD", "ARRAY", "VECTOR", "STORE")
EVENTS = ("load_beats", "array_active", "vector_active", "store_beats")
COLORS = ("#2f6fb3", "#3a8f55", "#c08a2b", "#8a4fa3")
"""Colours of the layers, in their order."""
LEFT, WIDTH, ROW, BAR = 120, 820, 34, 22
"""Pixels: the names, the time, a row and what is drawn in it."""
Changes = list[tuple[float, str]]


def recorded() -> tuple[dict[str, Changes], list[str], int]:
    """Returns the changes of the signals of `network`, the names of the layers, and the cycles of the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.vcd"
        session = tosaic.Session(ROOT / "examples/digits/digits_tiny.tosa", "sim", "nano", wave=path)
        image = np.load(ROOT / "examples/digits/images.npz")["inputs"][0].reshape(1, 8, 8, 1)
        session.run({session.inputs[0].name: image})
        changes = {
            variable.name: [(time / CYCLE_TICKS, str(value)) for time, value in variable.tv]
            for variable in pywellen.Waveform(str(path)).all_vars()
            if variable.full_name.startswith("network.")
        }
    assert session.program is not None and session.result is not None
    return changes, [layer.name for layer in session.program.layers], session.result.cycles


def pieces(changes: Changes, end: int) -> list[tuple[float, float, str]]:
    """Returns from, to and value of each stretch."""
    times = [cycle for cycle, _ in changes[1:]] + [end]
    return [
        (start, min(stop, end), value)
        for (start, value), stop in zip(changes, times, strict=True)
        if start < end
    ]


def drawn(changes: dict[str, Changes], layers: list[str], cycles: int) -> str:
    """Returns the picture as SVG."""
    scale = WIDTH / cycles

    def bar(row: float, start: float, stop: float, style: str, high: float = BAR) -> str:
        return (
            f'<rect x="{LEFT + start * scale:.1f}" y="{row + BAR - high:.1f}" '
            f'width="{max((stop - start) * scale, 0.3):.1f}" height="{high:g}" {style}/>'
        )

    color = dict(zip(layers, COLORS, strict=False))
    parts = []
    for number, unit in enumerate(UNITS):
        row = 40 + number * ROW
        parts.append(f'<text x="{LEFT - 8}" y="{row + 15}" text-anchor="end">{unit}</text>')
        for start, stop, layer in pieces(changes[f"{unit}_layer"], cycles):
            if layer in color:
                parts.append(bar(row, start, stop, f'fill="{color[layer]}" opacity=".22"'))
        for start, stop, state in pieces(changes[f"{unit}_state"], cycles):
            works = state not in ("idle", "busy") and not state.startswith("waits")
            if works:
                layer = next(v for a, b, v in pieces(changes[f"{unit}_layer"], cycles) if a <= start < b)
                parts.append(bar(row, start, stop, f'fill="{color.get(layer, "#6b7c8c")}"'))
    for number, event in enumerate(EVENTS):
        row = 40 + (len(UNITS) + number) * ROW
        parts.append(f'<text x="{LEFT - 8}" y="{row + 15}" text-anchor="end">{event}</text>')
        points = [f"M{LEFT} {row + BAR}"]
        for _, stop, value in pieces(changes[event], cycles):
            level = row + (4 if int(value) else BAR)
            points.append(f"V{level}H{LEFT + stop * scale:.1f}")
        parts.append(f'<path d="{"".join(points)}" fill="none" stroke="#22405f" stroke-width="1"/>')
    for cycle, layer in changes["ended_layer"]:
        if layer in color:
            x = LEFT + cycle * scale
            parts.append(
                f'<path d="M{x:.1f} 32V{40 + 8 * ROW}" stroke="{color[layer]}" stroke-dasharray="3 3"/>'
                f'<text x="{x - 3:.1f}" y="26" text-anchor="end" fill="{color[layer]}">{escape(layer)} ends</text>'
            )
    high = 40 + 8 * ROW + 26
    for cycle in range(0, cycles, 200):
        parts.append(
            f'<text x="{LEFT + cycle * scale:.0f}" y="{high - 8}" text-anchor="middle">{cycle}</text>'
        )
    size = f'width="{LEFT + WIDTH + 20}" height="{high}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {LEFT + WIDTH + 20} {high}" role="img" '
        'font-family="system-ui,sans-serif" font-size="12" fill="#44525f"><title>A run of three layers: what each '
        f'unit does in each cycle, as the waveform tells it</title>\n<rect {size} fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(*recorded()))
    print(PICTURE)
