"""Puts the report together: figures, charts, a table of layers."""

import html
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from tosaic.driver.page_style import STYLE
from tosaic.driver.replacing import replacing
from tosaic.driver.session import Session
from tosaic.driver.units import unit_figures
from tosaic.sim.result import Slice

from .layers import LayerFigures, layer_figures
from .memory_map import memory_map
from .roofline import roofline
from .timeline import TIMELINE_SCRIPT, timeline_data
from .units import counter_table, unit_bars


def write_report(path: str | pathlib.Path, title: str, session: Session) -> None:
    """Writes the page about the session's last run."""
    stats, config, timeline = session.stats, session.config, session.timeline()
    blocks = session.program.memory_blocks if session.program else []
    layers = layer_figures(stats, config, timeline)
    parts = [f"<h1>{html.escape(title)} on Tosaic</h1>", _facts(stats)]
    if timeline:
        parts += [_units(stats, config.word_bytes), _timeline(stats, timeline)]
    if any(layer.macs for layer in layers):
        parts.append(
            "<h2>Roofline</h2><p>A dot per layer with multiplications: higher is faster, under the slope it waits for "
            f"memory. {'Bytes as the cycle model moves them in the time of the layer.' if timeline else ''}</p>"
            + roofline(layers, config, stats["memory_bandwidth"])
        )
    if blocks:
        parts.append(
            "<h2>Activation memory</h2><p>Which bytes hold what, layer by layer.</p>"
            + memory_map(blocks, [layer.name for layer in layers], config)
        )
    if layers:
        parts.append(_table(layers))
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Tosaic: {html.escape(title)}</title>"
        f"<style>{STYLE}</style>{''.join(parts)}</html>\n"
    )
    with replacing(pathlib.Path(path)) as scratch:
        scratch.write_text(text)


def _facts(stats: dict[str, Any]) -> str:
    facts = {
        "configuration": stats["config"],
        "target": stats["target"],
        "cycles": f"{stats['cycles']:,}" if stats["cycles"] is not None else "-",
        "MAC utilization": f"{stats['mac_utilization']:.1%}" if stats["mac_utilization"] is not None else "-",
        "read / written": f"{stats['dram_read_bytes'] or 0:,} / {stats['dram_write_bytes'] or 0:,} bytes",
        "external memory": "the device's"
        if stats["memory_bandwidth"] is None
        else f"{stats['memory_bandwidth']} B/cycle, latency {stats['memory_latency']} cycles",
        "bit-exact": {True: "yes, equal to golden", None: "not checked"}.get(stats["bit_exact"], "no"),
    }
    items = "".join(f"<dt>{name}</dt><dd>{html.escape(str(value))}</dd>" for name, value in facts.items())
    return f"<dl>{items}</dl>"


def _units(stats: dict[str, Any], beat_bytes: int) -> str:
    """What held up which unit."""
    figures = unit_figures(stats["counters"], stats["cycles"], beat_bytes)
    if not figures:
        return ""
    return (
        "<h2>Units</h2><p>What each unit did in the cycles of the run, as the target counted them.</p>"
        + unit_bars(figures, stats["cycles"])
        + counter_table(stats["counters"], stats["cycles"])
    )


def _timeline(stats: dict[str, Any], timeline: Sequence[Slice]) -> str:
    data = json.dumps(timeline_data(stats, timeline), separators=(",", ":")).replace("</", "<\\/")
    return (
        "<h2>Timeline</h2><p>Layers as the target counted them, units by the cycle model. Wheel zooms, drag moves, "
        "a double click shows everything.</p><canvas id=timeline height=190></canvas><div id=tip></div>"
        f"<script>const DATA={data};{TIMELINE_SCRIPT}</script>"
    )


def _table(layers: list[LayerFigures]) -> str:
    longest = max(layer.cycles for layer in layers) or 1
    rows = []
    for layer in layers:
        width = 100 * layer.cycles / longest
        rows.append(
            f"<tr><td>{html.escape(layer.name)}</td><td>{layer.op}</td><td class=n>{layer.cycles:,}</td>"
            f"<td class=n>{layer.macs:,}</td><td class=n>{layer.utilization:.0%}</td><td class=n>{layer.bytes:,}</td>"
            f"<td style='width:25%'><div class=bar style='width:{width:.1f}%'></div></td></tr>"
        )
    return (
        "<h2>Layers</h2><table><thead><tr><th>layer</th><th>operator</th><th class=n>cycles</th><th class=n>MACs</th>"
        "<th class=n>utilization</th><th class=n>bytes moved</th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
