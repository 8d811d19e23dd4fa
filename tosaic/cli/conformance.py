"""`tosaic conformance`: TOSA's generated conformance suite on a target."""

import pathlib
import sys
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver import conformance as suite
from tosaic.driver.configuration import find_config
from tosaic.driver.conformance import Result, Verdict
from tosaic.driver.jobs import RecordFile, place_of
from tosaic.driver.targets import find_target
from tosaic.errors import InputError


def conformance(
    directory: Annotated[pathlib.Path, typer.Argument(help="Folder of a generated suite, or a part of it.")],
    *,
    on: options.On = "emulator",
    config: options.Config = "base",
    sizes: options.Set = None,
    jobs: options.Processes = 1,
    junit: Annotated[
        pathlib.Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write results for CI servers.")
    ] = None,
    markdown: Annotated[
        pathlib.Path | None,
        typer.Option("--markdown", metavar="FILE.md", help="Write or replace this target's part of a page."),
    ] = None,
    allow_unsupported: Annotated[
        bool,
        typer.Option("--allow-unsupported", help="Count what the target does not support as no failure."),
    ] = False,
    bake: Annotated[
        bool, typer.Option("--bake", help="First store expected outputs that are missing; needs tosa-tools.")
    ] = False,
    operator: Annotated[
        list[str] | None, typer.Option("--operator", metavar="OP", help="Run only tests of this operator.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", metavar="N", min=1, help="Run N tests, drawn evenly from all operators and modes."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the sample.")] = 0,
    time_limit: options.TimeLimit = 120.0,
    cluster: options.Cluster = None,
    records: options.Records = None,
    verbose: options.Verbose = False,
) -> None:
    """Run a conformance suite, compare bit for bit, count verdicts per operator. Exit 1 unless every test passes."""
    find_target(on)
    config = find_config(options.sized(config, sizes)).name
    check_file(junit)
    check_file(markdown)
    check_file(records)
    known = suite.find_cases(directory)
    cases = suite.choose(known, operator or [], sample, seed)
    with progress_bar("conformance") as progress:
        if bake:
            suite.bake(cases, jobs=jobs, progress=progress)
        unbaked = next((case for case in cases if not case.baked()), None)
        if unbaked:
            raise InputError(f"{unbaked.folder}: its expected outputs are not stored yet: give --bake")
        place = place_of(jobs, cluster, time_limit)
        results = suite.run_cases(cases, on, config, place, RecordFile(records), progress)
    if junit is not None:
        with writing(junit):
            name = f"TOSA conformance on {on} {config}"
            suite.write_junit(junit, name, results, allow_unsupported=allow_unsupported)
    if markdown is not None:
        with writing(markdown):
            command = ["tosaic", *sys.argv[1:]]
            suite.write_page(markdown, on, config, results, suite_size=len(known), command=command)
    _print(results, verbose=verbose)
    passed = sum(result.verdict is Verdict.PASS for result in results)
    print(f"{passed} of {len(results)} tests pass on {on}, configuration {config}")
    if any(result.fails(allow_unsupported=allow_unsupported) for result in results):
        raise typer.Exit(1)


def _print(results: list[Result], *, verbose: bool) -> None:
    """The table, what was rejected by reason, and every test that went wrong."""
    print(suite.markdown_table(results))
    print()
    for result in results:
        listed = result.verdict is not Verdict.PASS if verbose else result.fails(allow_unsupported=True)
        if listed:
            print(f"{result.verdict.value:8} {result.case.operator} {result.case.name}: {result.reason}")
    for count, operator, reason, example in suite.reason_counts(results, Verdict.REJECTED):
        print(f"{count:5} rejected: {operator}: {reason} (as in {example})")
