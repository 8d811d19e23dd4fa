"""The figures of an evaluation for people: rows of a table, and one self-contained HTML page."""

import html
import pathlib

from tosaic.driver.page_style import STYLE
from tosaic.driver.quantize.page import decibels
from tosaic.driver.replacing import replacing

from .evaluation import FLOAT, Evaluation

_TITLES = ("output", "on", "accuracy", "agreement", "SQNR", "largest difference")


def shown(found: Evaluation) -> list[tuple[str, ...]]:
    """Titles, then a row for each output and target, the float model's first; columns that say nothing are left out."""
    rows = [(name, FLOAT, f"{share:.2%}", "", "", "") for name, share in found.float_accuracy.items()]
    for each in found.outputs:
        rows.append(
            (
                each.name,
                each.target,
                "" if each.accuracy is None else f"{each.accuracy:.2%}",
                "" if each.agreement is None else f"{each.agreement:.2%}",
                "" if each.sqnr_db is None else decibels(each.sqnr_db),
                "" if each.largest_difference is None else f"{each.largest_difference:.4g}",
            )
        )
    columns = [column for column in zip(_TITLES, *rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


def write_page(path: pathlib.Path, title: str, found: Evaluation) -> None:
    """Writes the page: what was compared on how many samples, and the rows of `shown`."""
    facts = {
        "samples": f"{found.samples:,}",
        "against": found.against or "labels only",
        **{f"seconds, {name}": f"{spent:.1f}" for name, spent in found.seconds.items()},
    }
    items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    titles, *rows = shown(found)
    head = "".join(f"<th class={'n' if place > 1 else 't'}>{each}</th>" for place, each in enumerate(titles))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td class={'n' if place > 1 else 't'}>{html.escape(each)}</td>"
            for place, each in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Tosaic: {html.escape(title)}</title>"
        f"<style>{STYLE}</style><h1>{html.escape(title)}, evaluated</h1><dl>{items}</dl>"
        "<p>Accuracy: rows whose largest element is the label. Agreement: rows whose largest element is the float "
        "model's. SQNR: the float model's signal to the difference from it.</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></html>\n"
    )
    with replacing(path) as scratch:
        scratch.write_text(text)
