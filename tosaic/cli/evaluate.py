"""`tosaic evaluate`: how good a model is on a data set."""

import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import open_page, page_of, tell_next
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config
from tosaic.driver.evaluate import Evaluation
from tosaic.driver.evaluate.evaluation import EvaluationTerms, evaluation_of
from tosaic.driver.evaluate.page import confusions, shown, write_report
from tosaic.driver.evaluate.parts import evaluate_in_parts
from tosaic.driver.function_files import model_files
from tosaic.driver.jobs import RecordFile, place_of
from tosaic.driver.quantize import load_samples

_MATRIX_CLASSES = 12
"""Classes whose matrix is as wide as a terminal."""


def evaluate(
    model: Annotated[
        str, typer.Argument(help="A model in integers: .tosa, .tsc, or one to import that is quantized.")
    ],
    *,
    data: Annotated[
        pathlib.Path,
        typer.Option(
            "-d", "--data", metavar="TEST.npz", help="Samples by input name along the first axis, and labels."
        ),
    ],
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="NAME", help="The array of class numbers (default: `labels`, if it is there)."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="FLOATMODEL",
            help="The float model to compare with; .onnx, .tflite and .pt2 run in their frameworks.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "--on",
            metavar="TARGET",
            help="Target to run on (default: emulator); may be repeated.",
        ),
    ] = None,
    check_source: options.CheckSource = False,
    check_source_db: options.CheckSourceDb = None,
    config: options.ConfigOrProgram = None,
    sizes: options.Set = None,
    shape: options.Shape = None,
    value: options.Value = None,
    jobs: options.Processes = 1,
    cluster: options.Cluster = None,
    records: options.Records = None,
    as_json: Annotated[
        pathlib.Path | None, typer.Option("--json", metavar="FILE.json", help="Write all figures.")
    ] = None,
    report: options.ReportFile = None,
    open_: options.Open = False,
    verbose: options.Verbose = False,
) -> None:
    """Accuracy, agreement with a float model and SQNR of a model on data that it was not calibrated with."""
    check_file(as_json)
    page = page_of(report, open_)
    check_file(page)
    check_file(records)
    files, bound = model_files([pathlib.Path(model)], options.bindings(shape, value))
    model = str(files[0])
    how: dict[str, Any] = {
        "labels": labels,
        "config": find_config(options.sized(config or "base", sizes)).name if config or sizes else None,
        "bound": bound,
        "check": check_source,
        "limit_db": check_source_db,
    }
    targets = on or ["emulator"]
    with progress_bar("evaluate") as progress:
        if jobs > 1 or cluster is not None or records is not None:
            float_file = pathlib.Path(against) if against is not None else None
            kept, place = RecordFile(records), place_of(jobs, cluster)
            read = (pathlib.Path(model), data, float_file)
            found = evaluate_in_parts(
                read, targets, place, kept, terms=EvaluationTerms(**how), progress=progress
            )
        else:
            arrays = load_samples(data, "test data")
            found = evaluation_of(
                model, arrays, list(dict.fromkeys(targets)), against, EvaluationTerms(**how), progress
            )
    if as_json is not None:
        with writing_whole(as_json) as scratch:
            scratch.write_text(json.dumps(found.as_json(), indent=1) + "\n")
    if page is not None:
        with writing(page):
            write_report(page, pathlib.Path(model).name, found)
    _print(found)
    open_page(page, open_)
    found.judge()
    if page is None:
        tell_next(*sys.argv[1:], "--open")


def _print(found: Evaluation) -> None:
    titles, *rows = shown(found)
    _print_table(titles, rows, left=2)
    seconds = ", ".join(f"{name} {spent:.1f} s" for name, spent in found.seconds.items())
    against = f" against {found.against}" if found.against else ""
    print(f"{found.samples:,} samples{against}; {seconds}")
    for each in confusions(found, _MATRIX_CLASSES):
        print(f"\n{each.title}")
        _print_table(each.titles, each.rows, left=0)


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> None:
    """Prints a table whose first `left` columns are words."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, overflow="fold", justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)
