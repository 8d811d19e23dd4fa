"""The figures of an evaluation for people: rows of a table, and one self-contained HTML page."""

import dataclasses
import pathlib

from tosaic.driver.digests import file_digests
from tosaic.driver.pages import decibels, made, write_page

from .counts import FLOAT
from .evaluation import Evaluation, OutputFigures

_TITLES = (
    "output",
    "on",
    "accuracy",
    "agreement",
    "SQNR",
    "largest difference",
    "in steps",
    "beyond one step",
)


_MOST_FREQUENT = 10
_PAGE_CLASSES = 100
"""Classes of which a page shows the matrix."""


def shown(found: Evaluation) -> list[tuple[str, ...]]:
    """Titles, then a row for each output and target, the float model's first; columns that say nothing are left out."""
    rows = [(name, FLOAT, f"{share:.2%}", "", "", "", "", "") for name, share in found.float_accuracy.items()]
    for each in found.outputs:
        rows.append(
            (
                each.name,
                each.target,
                "" if each.accuracy is None else f"{each.accuracy:.2%}",
                "" if each.agreement is None else f"{each.agreement:.2%}",
                "" if each.sqnr_db is None else decibels(each.sqnr_db),
                "" if each.largest_difference is None else f"{each.largest_difference:.4g}",
                "" if each.largest_steps is None else f"{each.largest_steps:.3g}",
                "" if each.beyond_one_step is None else f"{each.beyond_one_step:.2%}",
            )
        )
    columns = [column for column in zip(_TITLES, *rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Which classes an output takes for which: a matrix, or of many classes the pairs that occur most."""

    title: str
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]


def confusions(found: Evaluation, most_classes: int) -> list[Confusion]:
    """One for each output with labels; targets on which it is the same share it. Beyond `most_classes` no matrix."""
    same: dict[tuple[str, tuple[tuple[int, int, int], ...]], list[OutputFigures]] = {}
    for each in found.outputs:
        if each.confusion is not None:
            same.setdefault((each.name, tuple(each.confusion)), []).append(each)
    return [
        _matrix(figures) if figures[0].shape[-1] <= most_classes else _most_frequent(figures)
        for figures in same.values()
    ]


def _matrix(figures: list[OutputFigures]) -> Confusion:
    classes = figures[0].shape[-1]
    rows = [[0] * classes for _ in range(classes)]
    for label, largest, count in figures[0].confusion or ():
        rows[label][largest] = count
    return Confusion(
        f"{_place(figures)}: a row for each label, a column for each class that was found",
        ("label", *map(str, range(classes)), "right"),
        [
            (str(label), *(str(count or "·") for count in row), f"{row[label] / sum(row):.1%}")
            for label, row in enumerate(rows)
            if any(row)
        ],
    )


def _most_frequent(figures: list[OutputFigures]) -> Confusion:
    wrong = [each for each in figures[0].confusion or () if each[0] != each[1]]
    wrong.sort(key=lambda each: -each[2])
    title = f"{_place(figures)}: the most frequent confusions of {len(wrong):,} kinds"
    return Confusion(
        title, ("label", "found", "rows"), [tuple(map(str, each)) for each in wrong[:_MOST_FREQUENT]]
    )


def _place(figures: list[OutputFigures]) -> str:
    return f"{figures[0].name} on {', '.join(each.target for each in figures)}"


def write_report(path: pathlib.Path, title: str, found: Evaluation) -> None:
    """Writes the page: what was compared on how many samples, the rows of `shown`, and `confusions`."""
    titles, *rows = shown(found)
    write_page(
        path,
        __package__,
        "evaluation.html",
        title=title,
        facts={
            "samples": f"{found.samples:,}",
            "against": found.against or "labels only",
            **{f"seconds, {name}": f"{spent:.1f}" for name, spent in found.seconds.items()},
        },
        titles=titles,
        rows=rows,
        confusions=confusions(found, _PAGE_CLASSES),
        made=made(file_digests({"model": found.model})),
    )
