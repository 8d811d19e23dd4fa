"""The figures of an evaluation for people: rows of a table, and one self-contained HTML page."""

import pathlib

from tosaic.driver.pages import decibels, write_page

from .counts import FLOAT
from .evaluation import Evaluation

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


def write_report(path: pathlib.Path, title: str, found: Evaluation) -> None:
    """Writes the page: what was compared on how many samples, and the rows of `shown`."""
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
    )
