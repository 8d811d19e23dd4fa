"""What pages and notebooks show of a run at a glance."""

from collections.abc import Sequence
from typing import Any

from tosaic.driver.arguments import NodeArg
from tosaic.driver.pages import Card, bytes_shown, render, share_shown

_DEAREST = 8
"""Layers in a notebook; the report has all."""


def run_cards(stats: dict[str, Any]) -> list[Card]:
    """The figures of `Session.stats`, the most important first."""
    source = stats.get("source")
    golden = "equal to golden" if source else "equal to golden, not compared with its network"
    exact = {True: ("yes", golden, True), None: ("not checked", "", None)}
    cards = [Card("bit-exact", *exact.get(stats["bit_exact"], ("no", "differs from golden", False)))]
    if stats["cycles"] is not None:
        counted = "predicted" if stats["target"] == "emulator" else "counted"
        read, written = (bytes_shown(stats[name] or 0) for name in ("dram_read_bytes", "dram_write_bytes"))
        cards = [
            Card("cycles", f"{stats['cycles']:,}", counted),
            Card("MAC utilization", f"{stats['mac_utilization']:.1%}", f"{stats['macs']:,} MACs"),
            *cards,
            Card("external memory", f"{read} read", f"{written} written"),
        ]
    if isinstance(source, dict):
        cards.append(Card("network", "near enough", f"compared with {source.get('network')}", True))
    memory = stats["memory_bandwidth"]
    note = "" if memory is None else f"{memory} B/cycle, latency {stats['memory_latency']}"
    return [*cards, Card("machine", f"{stats['config']}, {stats['target']}", note)]


def session_html(
    heading: str, inputs: Sequence[NodeArg], outputs: Sequence[NodeArg], stats: dict[str, Any]
) -> str:
    """A session in a notebook: its inputs and outputs; after a run also figures and the dearest layers."""
    dearest = sorted(stats.get("layers", ()), key=lambda layer: -layer["cycles"])[:_DEAREST]
    return render(
        "tosaic.driver.pages",
        "session.html",
        heading=heading,
        arguments=[("input", each) for each in inputs] + [("output", each) for each in outputs],
        cards=run_cards(stats) if stats else [],
        dearest=dearest if stats.get("cycles") else [],
        others=len(stats.get("layers", ())) - len(dearest),
        cycles=stats.get("cycles") or 0,
        share=share_shown,
    )
