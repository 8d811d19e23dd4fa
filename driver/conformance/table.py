"""Results counted: per operator, and by the reason of a rejection."""

import collections
from collections.abc import Sequence

from .page import general_reason
from .result import Result, Verdict

_ORDER = (Verdict.PASS, Verdict.MISMATCH, Verdict.REJECTED, Verdict.ACCEPTED, Verdict.ERROR)


def markdown_table(results: list[Result]) -> str:
    """A row per operator: how many positive and negative tests got which verdict; zeros are left blank."""
    counts: dict[str, collections.Counter[tuple[bool, Verdict]]] = {}
    for result in results:
        key = (result.case.negative, result.verdict)
        counts.setdefault(result.case.operator, collections.Counter())[key] += 1
    positive = [v for v in _ORDER if v is not Verdict.ACCEPTED]
    negative = [v for v in _ORDER if v is not Verdict.MISMATCH]
    header = ["operator", *(v.value for v in positive), *(f"negative {v.value}" for v in negative)]
    total: collections.Counter[tuple[bool, Verdict]] = sum(counts.values(), collections.Counter())
    rows = [header, *(_row(name, counts[name], positive, negative) for name in sorted(counts))]
    rows.append(_row("all", total, positive, negative))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = [_line(row, widths) for row in rows]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], _line(rule, widths), *lines[1:]])


def _row(
    name: str,
    count: collections.Counter[tuple[bool, Verdict]],
    positive: Sequence[Verdict],
    negative: Sequence[Verdict],
) -> list[str]:
    cells = [count[False, verdict] for verdict in positive] + [count[True, verdict] for verdict in negative]
    return [name, *(str(cell) if cell else "" for cell in cells)]


def _line(cells: list[str], widths: list[int]) -> str:
    padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
    return f"| {' | '.join(padded)} |"


def reason_counts(results: list[Result], verdict: Verdict) -> list[tuple[int, str, str, str]]:
    """(tests, operator, reason, name of the smallest test), most frequent first: reasons without names and numbers.

    The smallest test is the one that took least time: the one to look at first.
    """
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.verdict is verdict:
            groups.setdefault((result.case.operator, general_reason(result.reason)), []).append(result)
    found = [
        (len(group), operator, reason, min(group, key=lambda result: result.seconds).case.name)
        for (operator, reason), group in groups.items()
    ]
    return sorted(found, key=lambda item: (-item[0], item[1:]))
