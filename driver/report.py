"""A self-contained HTML page about one run: figures and a bar per layer."""

import html
import pathlib
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem} table{border-collapse:collapse;width:100%} td,th{padding:.2rem .6rem;text-align:left}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums} tr:nth-child(even){background:#f3f6f9}
.bar{background:#2f6fb3;height:.8rem;border-radius:2px} .ideal{background:#7fc6a4}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem} dt{color:#5a6b7b}
"""


def write_report(path: pathlib.Path, title: str, stats: dict[str, Any]) -> None:
    """Writes the page; `stats` is `Session.stats`."""
    layers = stats["layers"]
    longest = max((layer["cycles"] for layer in layers), default=1) or 1
    rows = []
    for layer in layers:
        width = 100 * layer["cycles"] / longest
        rows.append(
            f"<tr><td>{html.escape(layer['name'])}</td><td>{layer['op']}</td><td class=n>{layer['cycles']:,}</td>"
            f"<td class=n>{layer['macs']:,}</td>"
            f"<td style='width:40%'><div class=bar style='width:{width:.1f}%'></div></td></tr>"
        )
    facts = {
        "configuration": stats["config"],
        "target": stats["target"],
        "cycles": f"{stats['cycles']:,}" if stats["cycles"] is not None else "-",
        "MAC utilization": f"{stats['mac_utilization']:.1%}" if stats["mac_utilization"] is not None else "-",
        "read / written": f"{stats['dram_read_bytes'] or 0:,} / {stats['dram_write_bytes'] or 0:,} bytes",
        "external memory": f"{stats['memory_bandwidth']} B/cycle, latency {stats['memory_latency']} cycles",
        "bit-exact": {True: "yes, equal to golden", None: "not checked"}.get(stats["bit_exact"], "no"),
    }
    items = "".join(f"<dt>{name}</dt><dd>{html.escape(str(value))}</dd>" for name, value in facts.items())
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Tosaic: {html.escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{html.escape(title)} on Tosaic</h1><dl>{items}</dl>"
        "<table><thead><tr><th>layer</th><th>operator</th><th class=n>cycles</th>"
        "<th class=n>MACs</th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></html>\n"
    )
