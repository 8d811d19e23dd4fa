"""Two runs side by side: what changed, layer by layer."""

import dataclasses
import difflib
import pathlib
from typing import Any

from tosaic.driver.pages import Card, Column, bytes_shown, made, write_page

from .saved_run import SavedRun


@dataclasses.dataclass(frozen=True)
class LayerChange:
    """A layer of both runs, or of one of them."""

    name: str
    op: str
    before: int | None
    """Cycles; None where the run has no such layer."""
    after: int | None

    @property
    def difference(self) -> int:
        return (self.after or 0) - (self.before or 0)

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None


@dataclasses.dataclass(frozen=True)
class RunComparison:
    """`layers` are in the order of the runs."""

    before: SavedRun
    after: SavedRun
    layers: list[LayerChange]
    warnings: list[str]
    """Conditions in which the runs differ."""

    @property
    def difference(self) -> int:
        return (self.after.stats["cycles"] or 0) - (self.before.stats["cycles"] or 0)

    def changed(self) -> list[LayerChange]:
        """Layers whose cycles differ, those that changed most first."""
        return sorted(
            (each for each in self.layers if each.difference), key=lambda each: -abs(each.difference)
        )


def compare_runs(before: SavedRun, after: SavedRun) -> RunComparison:
    """Puts layers of the same name and operator beside each other, in their order."""
    old, new = before.stats["layers"], after.stats["layers"]
    keys = [[(layer["name"], layer["op"]) for layer in layers] for layers in (old, new)]
    changes = []
    for tag, i, j, k, n in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if tag == "equal":
            changes += [_change(a, b) for a, b in zip(old[i:j], new[k:n], strict=True)]
        else:
            changes += [_change(a, None) for a in old[i:j]] + [_change(None, b) for b in new[k:n]]
    return RunComparison(before, after, changes, list(_warnings(before.stats, after.stats)))


def _change(before: dict[str, Any] | None, after: dict[str, Any] | None) -> LayerChange:
    layer = before or after
    assert layer is not None
    return LayerChange(
        layer["name"],
        layer["op"],
        None if before is None else before["cycles"],
        None if after is None else after["cycles"],
    )


_CONDITIONS = {
    "config": "configuration",
    "target": "target",
    "memory_bandwidth": "memory bandwidth",
    "memory_latency": "memory latency",
    "macs": "multiplications",
}


def _warnings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{told}: {before.get(name)} and {after.get(name)}"
        for name, told in _CONDITIONS.items()
        if before.get(name) != after.get(name)
    ]


def write_comparison(path: pathlib.Path, found: RunComparison) -> None:
    """Writes the page about two runs."""
    before, after = found.before.stats, found.after.stats
    cycles = [
        Card(
            "cycles",
            f"{after['cycles'] or 0:,}",
            _changed(before["cycles"], after["cycles"]),
            _better(found.difference),
        ),
        Card(
            "MAC utilization",
            f"{after['mac_utilization'] or 0:.1%}",
            f"was {before['mac_utilization'] or 0:.1%}",
        ),
        *(
            Card(title, bytes_shown(after[name] or 0), _changed(before[name], after[name]))
            for title, name in (("read", "dram_read_bytes"), ("written", "dram_write_bytes"))
        ),
        Card(
            "machine", f"{after['config']}, {after['target']}", f"was {before['config']}, {before['target']}"
        ),
    ]
    most = max((abs(layer.difference) for layer in found.layers), default=1) or 1
    write_page(
        path,
        __package__,
        "comparison.html",
        found=found,
        made=made()
        | {
            f"{side}, {name}": fact
            for side, run in (("before", before), ("after", after))
            for name, fact in run.get("made", {}).items()
        },
        cards=cycles,
        most=most,
        columns=[
            Column("#", number=True, wide=True),
            Column("layer"),
            Column("operator", wide=True),
            Column("before", number=True, tip="Cycles"),
            Column("after", number=True, tip="Cycles"),
            Column("change", number=True, tip="Cycles"),
            Column("in percent", number=True, wide=True),
            Column("", wide=True),
        ],
        units=_units(before, after),
    )


def _better(difference: int) -> bool | None:
    return None if not difference else difference < 0


def _changed(before: int | None, after: int | None) -> str:
    if not before or after is None:
        return f"was {before}"
    return f"was {before:,} ({after / before - 1:+.1%})"


def _units(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    """(unit, what it did, cycles before, after) of everything that a unit did in either run."""
    rows = []
    sides = [run.get("units") or {} for run in (before, after)]
    for unit in dict.fromkeys([*sides[0], *sides[1]]):
        parts = [side.get(unit, {}).get("cycles", {}) for side in sides]
        rows += [
            (unit, label, parts[0].get(label, 0), parts[1].get(label, 0))
            for label in dict.fromkeys([*parts[0], *parts[1]])
        ]
    return rows
