"""`tosaic judge`: what other people's programs make of TOSA graphs."""

import pathlib
import sys
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, make_folder, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver import judge as judging
from tosaic.driver.jobs import RecordFile, place_of

_MISMATCH = 3
_CONSUMERS = ", ".join(name for name in sorted(judging.CONSUMERS) if name != "cmd")
_JOB_RUNS = 100
"""Time limits of a job, in which a graph is made smaller by running its parts."""


def judge(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="GRAPHS...",
            help="random:N, a .tosa file, or a folder: of TOSA's conformance suite, of .tosa files, or of folders with "
            "graph.tosa and input_N.npy.",
        ),
    ],
    *,
    on: Annotated[
        list[str],
        typer.Option(
            "--on",
            metavar="CONSUMER",
            help=f"Who computes: {_CONSUMERS}, or cmd:PROGRAM, anybody's own; may be repeated.",
        ),
    ],
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of random graphs and samples.")
    ] = 0,
    sample: Annotated[
        int | None, typer.Option("--sample", metavar="N", min=1, help="Take N graphs of each folder.")
    ] = None,
    jobs: options.Processes = 1,
    cluster: options.Cluster = None,
    records: options.Records = None,
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", metavar="SECONDS", min=0.1, help="Seconds that a consumer may take for a graph."
        ),
    ] = judging.LIMIT_SECONDS,
    failures: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--failures", metavar="FOLDER", help="Write a folder with a script for each kind of difference."
        ),
    ] = None,
    markdown: Annotated[
        pathlib.Path | None,
        typer.Option("--markdown", metavar="FILE.md", help="Write a page of the results."),
    ] = None,
    verbose: options.Verbose = False,
) -> None:
    """Compare what programs make of TOSA graphs with golden, and find the operators that differ.

    Exit 3 where one differs, crashes or does not end; a refusal is no failure.
    """
    check_file(markdown)
    check_file(records)
    make_folder(failures)
    cases = judging.find_sources(sources, seed, sample)
    place = place_of(jobs, cluster, _JOB_RUNS * time_limit)
    with progress_bar("judge") as progress:
        found = judging.judge_all(cases, on, place, RecordFile(records), progress, limit_seconds=time_limit)
    if failures is not None:
        with writing(failures):
            judging.write_reproducers(found, failures)
    if markdown is not None:
        with writing(markdown):
            judging.write_page(markdown, found, judging.versions_of(on), ["tosaic", *sys.argv[1:]])
    _print(found, verbose=verbose)
    if any(each.wrong for each in found):
        raise typer.Exit(_MISMATCH)
    if any(each.outcome.verdict is judging.JudgeVerdict.FAILED for each in found):
        raise typer.Exit(1)


def _print(found: list[judging.Judged], *, verbose: bool) -> None:
    print("\n".join(judging.counts_table(found)))
    for kind, group in judging.kinds([each for each in found if each.wrong]).items():
        print(judging.kind_line(kind, group))
    for each in found:
        if verbose or each.outcome.verdict in (judging.JudgeVerdict.OPEN, judging.JudgeVerdict.FAILED):
            print(f"{each.consumer} {each.source.title}: {each.outcome.verdict.value}: {each.outcome.reason}")
