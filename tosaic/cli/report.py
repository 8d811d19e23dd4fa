"""`tosaic report`: a page about a run that `--stats` has kept, or about two of them side by side."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import open_page, tell_next
from tosaic.cli.files import check_file, writing
from tosaic.errors import InputError, reading

if TYPE_CHECKING:
    from tosaic.driver.report import RunComparison

_SHOWN = 10
"""Layers that are told of one by one."""


def report(
    run: Annotated[
        pathlib.Path, typer.Argument(metavar="A.json", help="Statistics that `run --stats` wrote.")
    ],
    other: Annotated[
        pathlib.Path | None,
        typer.Argument(metavar="[B.json]", help="A later run, to compare with the first."),
    ] = None,
    compare: Annotated[
        pathlib.Path | None,
        typer.Option("--compare", metavar="B.json", help="The same, as an option."),
    ] = None,
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="FILE.html", help="The page to write.")
    ] = pathlib.Path("report.html"),
    open_: options.Open = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the page of a run, or of two runs: what changed, layer by layer."""
    from tosaic.driver.report import compare_runs, read_run, write_comparison, write_run

    if other is not None and compare is not None:
        raise typer.BadParameter("give the later run once: as B.json or by --compare")
    later = other or compare
    check_file(output)
    first = read_run(run)
    way_out = "write it again by `tosaic run --stats`"
    if later is None:
        with writing(output), reading(run, way_out, InputError):
            write_run(output, first)
    else:
        found = compare_runs(first, read_run(later))
        with writing(output), reading(f"{run} or {later}", way_out, InputError):
            write_comparison(output, found)
        _print_changes(found)
    print(f"report: {output}")
    open_page(output, open_)
    if later is None:
        tell_next("report", run, "--compare", "LATER.json", "--open")


def _print_changes(found: "RunComparison") -> None:
    """The runs' cycles, and a line for each of the layers that changed most."""
    before, after = (run.stats["cycles"] or 0 for run in (found.before, found.after))
    share = f" ({after / before - 1:+.1%})" if before else ""
    print(f"{before:,} cycles before, {after:,} after: {found.difference:+,}{share}")
    for warning in found.warnings:
        print(f"not of a kind: {warning}")
    changed = found.changed()
    for layer in changed[:_SHOWN]:
        sides = " -> ".join("none" if each is None else f"{each:,}" for each in (layer.before, layer.after))
        print(f"{layer.difference:+12,}  {layer.name} ({layer.op}): {sides}")
    if len(changed) > _SHOWN:
        print(f"and {len(changed) - _SHOWN} layers that changed less")
