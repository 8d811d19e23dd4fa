"""The results as a table, as CSV, and as a plot."""

import csv
import html
import io
from collections.abc import Sequence

from .anchors import anchor_names, anchors_of
from .measure import Row


def _ratio(row: Row, anchor: str) -> float | None:
    """How many times as many cycles the anchor needs; None when the multipliers are not about as many, or samples
    come in batches, which they do not at the anchors."""
    found = anchors_of(row.network).get(anchor)
    if found is None or row.batch > 1 or not 0.75 < row.macs_per_cycle / found.multipliers < 1.5:
        return None
    return found.cycles / row.cycles


def _used_anchors(rows: Sequence[Row]) -> list[str]:
    return [name for name in anchor_names() if any(_ratio(row, name) is not None for row in rows)]


def markdown_table(rows: Sequence[Row]) -> str:
    """A Markdown table; the anchors' columns say how many times as many cycles they need."""
    anchors = _used_anchors(rows)
    titles = [
        "network",
        "config",
        "memory B/cycle",
        "MACs",
        "ideal",
        "cycles",
        "utilization",
        "bytes read",
        "written",
    ]
    lines = [[*titles, *(f"× {name}" for name in anchors)]]
    for row in rows:
        ratios = [_ratio(row, name) for name in anchors]
        lines.append(
            [
                row.network,
                row.config,
                str(row.memory_bandwidth),
                f"{row.macs:,}",
                f"{row.ideal_cycles:,}",
                f"{row.cycles:,}",
                f"{row.utilization:.1%}",
                f"{row.read_bytes:,}",
                f"{row.write_bytes:,}",
                *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = [_markdown_line(lines[0], widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join(text + [_markdown_line(line, widths) for line in lines[1:]])


def _markdown_line(cells: list[str], widths: list[int]) -> str:
    shown = [
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(shown)} |"


def csv_text(rows: Sequence[Row]) -> str:
    """One line per row, every figure; the anchors' cycles behind it."""
    anchors = anchor_names()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "network", "config", "target", "macs_per_cycle", "memory_bandwidth", "memory_latency", "macs",
            "ideal_cycles", "cycles", "utilization", "dram_read_bytes", "dram_write_bytes", "bit_exact",
            "dead_channels_removed", "batch",
            *(f"{name} cycles" for name in anchors),
        ]
    )  # fmt: skip
    for row in rows:
        known = anchors_of(row.network)
        writer.writerow(
            [
                row.network, row.config, row.target, row.macs_per_cycle, row.memory_bandwidth, row.memory_latency,
                row.macs, row.ideal_cycles, row.cycles, f"{row.utilization:.4f}", row.read_bytes, row.write_bytes,
                "" if row.bit_exact is None else int(row.bit_exact),
                int(row.dead_channels_removed), row.batch,
                *(known[name].cycles if name in known else "" for name in anchors),
            ]
        )  # fmt: skip
    return out.getvalue()


_COLOURS = ("#2f6fb3", "#9aa7b3", "#c0562f", "#d9a441", "#7a9a5b")
_WIDTH, _BAR, _GAP, _LEFT = 900, 16, 14, 220


def plot_svg(rows: Sequence[Row]) -> str:
    """Bars per row: cycles as multiples of the ideal, ours and the anchors'."""
    groups = []
    for row in rows:
        label = f"{row.network} ({row.config}, {row.memory_bandwidth} B/cycle)"
        bars = [("Tosaic", row.cycles)]
        bars += [
            (name, anchor.cycles)
            for name, anchor in anchors_of(row.network).items()
            if _ratio(row, name) is not None
        ]
        groups.append((label, row.ideal_cycles, bars))
    most = max(cycles / ideal for _, ideal, bars in groups for _, cycles in bars)
    names = ["Tosaic", *anchor_names()]
    parts, y = [], 30.0
    for label, ideal, bars in groups:
        middle = y + _BAR * len(bars) / 2 + 4
        parts.append(f"<text x='{_LEFT - 8}' y='{middle:.0f}' text-anchor='end'>{html.escape(label)}</text>")
        for name, cycles in bars:
            width = (_WIDTH - _LEFT - 240) * cycles / ideal / most
            colour = _COLOURS[names.index(name) % len(_COLOURS)]
            parts.append(
                f"<rect x='{_LEFT}' y='{y:.0f}' width='{width:.1f}' height='{_BAR - 3}' fill='{colour}'/>"
                f"<text x='{_LEFT + width + 6:.0f}' y='{y + _BAR - 5:.0f}'>"
                f"{name} {cycles:,} ({cycles / ideal:.2f} × ideal)</text>"
            )
            y += _BAR
        y += _GAP
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {y:.0f}'>"
        "<style>text{font:12px system-ui,sans-serif;fill:#1c2733}</style>"
        "<text x='8' y='18'>Cycles per inference, as multiples of the ideal (every multiplier busy)</text>"
        f"{''.join(parts)}</svg>\n"
    )
