"""A folder for each kind of thing that goes wrong: the smallest graph that was found, inputs, and a script."""

import collections
import contextlib
import pathlib
import re
import shlex
from collections.abc import Sequence

import numpy as np

from tosaic.sim.golden import evaluate

from .case import JudgeCase, output_files
from .consumers import consumer_of
from .judging import Judged
from .minimize import part_of
from .outcome import VERDICTS

_SHOWN_ELEMENTS = 64
Kind = tuple[str, str, str]
"""Consumer, verdict, the part in words."""


def kinds(judged: Sequence[Judged]) -> dict[Kind, list[Judged]]:
    """What goes wrong, and an example of each reason of refusals, by kind: the most frequent first, and in a kind the
    smallest part first."""
    found: dict[Kind, list[Judged]] = collections.defaultdict(list)
    for each in judged:
        if each.wrong or (each.refused and each.signature):
            words = each.signature or each.outcome.kind
            found[each.consumer, each.outcome.verdict.value, words].append(each)
    for group in found.values():
        group.sort(key=lambda each: (len(each.part), each.source.title))
    return dict(sorted(found.items(), key=lambda item: (item[0][0], -len(item[1]), item[0])))


def small_case(judged: Judged) -> JudgeCase:
    """The part of a case that shows what goes wrong."""
    case = judged.source.load()
    return part_of(case, judged.part) if 0 < len(judged.part) < len(case.graph.operators) else case


def write_reproducers(judged: Sequence[Judged], folder: pathlib.Path) -> list[pathlib.Path]:
    """A folder for each kind, with the case, golden's outputs, report.md and show.sh, which says the verdict."""
    written = []
    for number, (kind, group) in enumerate(kinds(judged).items()):
        place = folder / f"{number:03}-{_plain(f'{kind[0]}-{kind[1]}-{kind[2]}')}"
        _write(place, group, kind)
        written.append(place)
    return written


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60]


def _write(place: pathlib.Path, group: list[Judged], kind: Kind) -> None:
    case = small_case(group[0])
    case.save(place)
    golden = evaluate(case.graph, dict(case.feeds))
    for name, file in zip(case.graph.outputs, output_files(case.graph), strict=True):
        np.save(place / f"golden_{file}", golden[name])
    asked = consumer_of(kind[0])
    (place / "show.sh").write_text(f'tosaic dev judge "$(dirname "$0")" --on {shlex.quote(kind[0])}\n')
    (place / "report.md").write_text(report(group, kind, case, asked.version(), place))


def report(group: list[Judged], kind: Kind, case: JudgeCase, version: str, place: pathlib.Path) -> str:
    """What its makers would want to know; `place` holds the case."""
    one = group[0]
    said = f" Golden and TOSA's reference model: {one.arbiter}." if one.arbiter else ""
    lines = [
        f"# {kind[0]} {kind[1]}: {kind[2]}",
        "",
        f"{version}. Seen in {len(group):,} graphs. This is the smallest part of {one.source.title}: "
        f"{len(case.graph.operators)} of its operators.",
        "",
        f"What happens: {one.smallest.reason}.{said}",
        "",
    ]
    golden = evaluate(case.graph, dict(case.feeds))
    for name in case.graph.outputs:
        if golden[name].size <= _SHOWN_ELEMENTS:
            numbers = " ".join(str(int(each)) for each in golden[name].flat)
            lines += [f"Golden's {name}, {list(golden[name].shape)}: {numbers}", ""]
    steps = getattr(consumer_of(kind[0]), "steps", None)
    if steps:
        with contextlib.suppress(
            *VERDICTS
        ):  # Its own tools do not take the graph: then there is no more to show.
            lines += steps(case, place)
    return "\n".join(lines).rstrip("\n") + "\n"
