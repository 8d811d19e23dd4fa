"""The page of an exploration: the front as a picture, its points as rows, and the command for the Verilog of each."""

import dataclasses
import html
import math
import pathlib
from collections.abc import Mapping, Sequence

from tosaic.driver.page_style import STYLE
from tosaic.driver.replacing import replacing

from .front import front_of
from .point import Area, Point
from .search import Exploration

_WIDTH, _HEIGHT, _LEFT, _BELOW, _TOP, _RIGHT = 900, 420, 90, 48, 40, 24
_COLOURS = ("#c0562f", "#d9a441", "#3f9d78", "#2f6fb3", "#a05fa8", "#44535f")
REFUSED_SHOWN = 12
_TICKS = 4


@dataclasses.dataclass(frozen=True)
class Told:
    """What the page says beside the points."""

    title: str
    facts: Mapping[str, str]
    best: Point | None
    measured: Mapping[tuple[str, int], str] = dataclasses.field(default_factory=dict)
    """What RTL and synthesis gave, by configuration and bandwidth."""


def write_page(path: pathlib.Path, found: Exploration, told: Told) -> None:
    """Writes one file that needs nothing else."""
    front = front_of(found.points)
    facts = {
        **told.facts,
        "points": f"{len(found.points):,}, {len(front):,} of them on the front",
        "left out": f"{found.too_large:,} machines do not fit, {len(found.refused):,} do not run every network",
    }
    items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    refused = "".join(
        f"<li>{html.escape(name)}: {html.escape(reason)}</li>"
        for name, reason in list(found.refused.items())[:REFUSED_SHOWN]
    )
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Tosaic: {html.escape(told.title)}</title>"
        f"<style>{STYLE} code{{font-size:.85em;overflow-wrap:anywhere}} tr.best td{{background:#fdf3d8}}</style>"
        f"<h1>{html.escape(told.title)}</h1><dl>{items}</dl>"
        "<h2>Cycles and area</h2><p>A dot per machine and memory; large dots are on the front: none is better in "
        "cycles, LUTs and bandwidth at once. Cycles are the geometric mean of the networks'.</p>"
        + _picture(found.points, front, told.best)
        + "<h2>The front</h2>"
        + _table(front, told)
        + (f"<h2>Refused</h2><ul>{refused}</ul>" if refused else "")
        + "</html>\n"
    )
    with replacing(path) as scratch:
        scratch.write_text(text)


def verilog_command(point: Point) -> str:
    """Writes the Verilog of a point."""
    return f"tosaic verilog --config {point.config.name} -o verilog/"


def _picture(points: Sequence[Point], front: Sequence[Point], best: Point | None) -> str:
    if not points:
        return "<p>There is no point.</p>"
    across, up = _Axis([each.area.lut for each in points]), _Axis([each.score for each in points])
    bandwidths = sorted({each.bandwidth for each in points})
    colours = {each: _COLOURS[place % len(_COLOURS)] for place, each in enumerate(bandwidths)}

    def place(point: Point) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * across.share(point.area.lut)
        return x, _HEIGHT - _BELOW - (_HEIGHT - _BELOW - _TOP) * up.share(point.score)

    on_front = set(map(id, front))
    parts = [*_frame(across, up), *_key(colours)]
    for bandwidth in bandwidths:
        own = [place(each) for each in front if each.bandwidth == bandwidth]
        if len(own) > 1:
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in own)
            parts.append(
                f"<polyline points='{line}' fill=none stroke='{colours[bandwidth]}' stroke-opacity=.5 />"
            )
    for each in sorted(points, key=lambda each: id(each) in on_front):
        x, y = place(each)
        large = id(each) in on_front
        ring = " stroke='#1c2733' stroke-width=2" if each is best else ""
        parts.append(
            f"<circle cx={x:.1f} cy={y:.1f} r={6 if large else 2.5} fill='{colours[each.bandwidth]}' "
            f"fill-opacity={0.85 if large else 0.35}{ring}><title>{html.escape(_label(each))}</title></circle>"
        )
    return f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img>{''.join(parts)}</svg>"


def _label(point: Point) -> str:
    cycles = ", ".join(f"{pathlib.Path(name).parent.name or name}: {c:,}" for name, c in point.cycles.items())
    return f"{point.config.name}, {point.bandwidth} B/cycle: {point.area.lut:,} LUTs; cycles {cycles}"


class _Axis:
    """A logarithmic axis over some values."""

    def __init__(self, values: Sequence[float]):
        low, high = min(values), max(values)
        self.low, self.high = low * 0.9, high * 1.1

    def share(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self) -> list[int]:
        """Round numbers, as many as there is room for."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
            ticks = [round(step * 10**power) for power in powers for step in steps]
            found = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(found) >= _TICKS:
                break
        return found


def _frame(across: _Axis, up: _Axis) -> list[str]:
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _BELOW - _TOP
    parts = []
    for tick in across.ticks():
        x = _LEFT + wide * across.share(tick)
        parts.append(f"<line x1={x:.1f} x2={x:.1f} y1={_TOP} y2={_HEIGHT - _BELOW} stroke='#dde4ea' />")
        parts.append(f"<text x={x:.1f} y={_HEIGHT - _BELOW + 16} text-anchor=middle>{tick:,}</text>")
    for tick in up.ticks():
        y = _HEIGHT - _BELOW - tall * up.share(tick)
        parts.append(f"<line x1={_LEFT} x2={_WIDTH - _RIGHT} y1={y:.1f} y2={y:.1f} stroke='#dde4ea' />")
        parts.append(f"<text x={_LEFT - 6} y={y + 4:.1f} text-anchor=end>{tick:,}</text>")
    parts.append(f"<text x={_LEFT + wide / 2} y={_HEIGHT - 10} text-anchor=middle>LUTs (estimate)</text>")
    parts.append(
        f"<text transform='translate(16 {_TOP + tall / 2}) rotate(-90)' text-anchor=middle>cycles</text>"
    )
    return parts


def _key(colours: Mapping[int, str]) -> list[str]:
    parts = []
    for place, (bandwidth, colour) in enumerate(colours.items()):
        x = _LEFT + 110 * place
        parts.append(f"<circle cx={x + 6} cy=18 r=6 fill='{colour}' />")
        parts.append(f"<text x={x + 18} y=22>{bandwidth} B/cycle</text>")
    return parts


def _table(front: Sequence[Point], told: Told) -> str:
    networks = list(front[0].cycles) if front else []
    names = [pathlib.Path(name).parent.name or pathlib.Path(name).stem for name in networks]
    titles = ["LUT", "FF", "multipliers", "RAM kbit", "B/cycle", *names]
    head = "".join(f"<th class=n>{html.escape(title)}</th>" for title in titles)
    rows = []
    for each in front:
        figures = [*_resources(each.area), each.bandwidth, *(each.cycles[name] for name in networks)]
        cells = "".join(f"<td class=n>{figure:,}</td>" for figure in figures)
        checked = told.measured.get((each.config.name, each.bandwidth), "")
        rows.append(
            f"<tr{' class=best' if each is told.best else ''}>{cells}"
            f"<td><code>{html.escape(verilog_command(each))}</code><br>{html.escape(checked)}</td></tr>"
        )
    return (
        f"<table><thead><tr>{head}<th>Verilog, and what RTL and synthesis gave</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _resources(area: Area) -> tuple[int, int, int, int]:
    return area.lut, area.ff, area.dsp, area.ram_kbit
