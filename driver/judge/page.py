"""The page of who is exact on what, and the table that the command prints."""

import collections
import pathlib
import shlex
import tempfile
from collections.abc import Mapping, Sequence

from tosaic.driver.replacing import replacing

from .judging import Judged
from .outcome import JudgeVerdict, general
from .reproducer import Kind, kinds, report, small_case
from .sources import SUITE

_HEAD = """# What others make of TOSA

Graphs through programs that compute TOSA, or the same network in another form, compared with golden element by element.
[judge.md](../judge.md) says how to judge a program of yours. Written by

    {command}

| verdict | means |
|---|---|
| exact | all outputs are golden's |
| one step apart | of other forms, whose scales are floats: rounding, which over several layers adds up to a few steps |
| differs | a shape or a value is another one; of INT48, 48 bits are compared |
| refused | the consumer says that it does not take the graph |
| crashed, timed out | it died, ended without its outputs, or took longer than it may |
| not judged | TOSA leaves the result open, by golden's REQUIREs or by its reference model |
| failed | the judge itself did not come to its end |

Where a network in another form differs, the producer of its graph.tosa (the folder's name) may be the one that errs.
A part is found so: all tensors become outputs, and the first operator whose result differs is tried alone, fed golden's
values. Where it is right alone, operators are left out by halves and one by one, as long as the rest still shows it.

"""
_VERDICTS = [each for each in JudgeVerdict]
_SHOWN_LINES = 60
"""Lines of a report that the page shows whole."""


def counts_table(judged: Sequence[Judged]) -> list[str]:
    """A row for each consumer and group of graphs."""
    rows: dict[tuple[str, str], collections.Counter[JudgeVerdict]] = collections.defaultdict(
        collections.Counter
    )
    for each in judged:
        rows[each.consumer, each.source.group][each.outcome.verdict] += 1
    lines = [
        f"| consumer | graphs of | graphs | {' | '.join(each.value for each in _VERDICTS)} |",
        f"|---|---|--:{'|--:' * len(_VERDICTS)}|",
    ]
    for (consumer, group), found in rows.items():
        cells = [f"{found[verdict]:,}" if found[verdict] else "" for verdict in _VERDICTS]
        lines.append(f"| {consumer} | {group} | {found.total():,} | {' | '.join(cells)} |")
    return lines


def kind_line(kind: Kind, group: Sequence[Judged]) -> str:
    """One line for a kind of thing that goes wrong."""
    one = group[0]
    return f"{kind[0]} {kind[1]} ({len(group):,} graphs, as {one.source.title}): {kind[2]}: {one.smallest.reason}"


def write_page(
    path: pathlib.Path, judged: Sequence[Judged], versions: Mapping[str, str], command: Sequence[str]
) -> None:
    """Write the page."""
    lines = [_HEAD.format(command=shlex.join(command))]
    lines += [f"- {name}: {version}" for name, version in versions.items()]
    lines += ["", "## Who is exact", "", *counts_table(judged), ""]
    lines += _operators(judged)
    lines += _wrong(judged, versions)
    lines += _refused(judged)
    with replacing(path) as scratch:
        scratch.write_text("\n".join(lines).rstrip("\n") + "\n")


def _operators(judged: Sequence[Judged]) -> list[str]:
    """Tests of the suite that are not exact, by operator."""
    tests = [each for each in judged if each.source.kind == SUITE]
    if not tests:
        return []
    consumers = list(dict.fromkeys(each.consumer for each in tests))
    found: dict[tuple[str, str], list[Judged]] = collections.defaultdict(list)
    for each in tests:
        # A test of control flow or of data nodes has several operators: the folder above tells whose test it is.
        assert each.source.path is not None
        found[each.source.path.parent.name, each.consumer].append(each)
    names = sorted({name for name, _ in found})
    lines = [
        "## TOSA's suite by operator",
        "",
        "Exact of all tests, where not all are exact.",
        "",
    ]
    lines += [f"| operator | {' | '.join(consumers)} |", f"|---{'|--:' * len(consumers)}|"]
    for name in names:
        cells = []
        for consumer in consumers:
            group = found[name, consumer]
            exact = sum(each.outcome.verdict is JudgeVerdict.EXACT for each in group)
            cells.append((exact, len(group)))
        if any(exact < total for exact, total in cells):
            lines.append(f"| {name} | {' | '.join(f'{exact} of {total}' for exact, total in cells)} |")
    return [*lines, ""]


def _wrong(judged: Sequence[Judged], versions: Mapping[str, str]) -> list[str]:
    found = kinds([each for each in judged if each.wrong])
    if not found:
        return ["## Differences", "", "None.", ""]
    lines = [
        "## Differences",
        "",
        "| consumer | verdict | graphs | smallest part | reference model |",
        "|---|---|--:|---|---|",
    ]
    for (consumer, verdict, words), group in found.items():
        lines.append(f"| {consumer} | {verdict} | {len(group):,} | {words} | {group[0].arbiter} |")
    lines += ["", "## Reports", ""]
    for kind, group in found.items():
        case = small_case(group[0])
        with tempfile.TemporaryDirectory() as folder:
            case.save(pathlib.Path(folder))
            own = report(group, kind, case, versions[kind[0]], pathlib.Path(folder)).splitlines()
        lines += [f"##{own[0]}", "", *(own[2:] if len(own) <= _SHOWN_LINES else own[2:6]), ""]
    return lines


def _refused(judged: Sequence[Judged]) -> list[str]:
    groups: dict[tuple[str, str, str], list[Judged]] = collections.defaultdict(list)
    for each in judged:
        if each.outcome.verdict in (JudgeVerdict.REFUSED, JudgeVerdict.OPEN, JudgeVerdict.FAILED):
            groups[each.consumer, each.outcome.verdict.value, general(each.outcome.reason)].append(each)
    if not groups:
        return []
    lines = ["## Refused and not judged, by reason", ""]
    lines += ["| consumer | verdict | graphs | reason | smallest part of one |", "|---|---|--:|---|---|"]
    for (consumer, verdict, reason), group in sorted(
        groups.items(), key=lambda item: (item[0][0], -len(item[1]))
    ):
        part = next((each.signature for each in group if each.signature), "")
        lines.append(f"| {consumer} | {verdict} | {len(group):,} | {reason.replace('|', '¦')} | {part} |")
    return [*lines, ""]
