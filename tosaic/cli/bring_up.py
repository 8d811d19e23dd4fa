"""`tosaic bring-up`: a board's first hour, step by step."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.boards import find_board
from tosaic.cli.files import check_file, writing_whole
from tosaic.driver.configuration import find_config


def bring_up(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="A board that `tosaic targets` lists.")],
    *,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="URI", help="Where it is, as serial:///dev/ttyUSB1 (default: the board's)."
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="NAME", help="The configuration, if not the board's.")
    ] = None,
    bundle: Annotated[
        pathlib.Path | None,
        typer.Option("--bundle", metavar="FILE.zip", help="Write what was found, to send to whoever helps."),
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="List all faults that have a name, and test nothing.")
    ] = False,
    verbose: options.Verbose = False,
) -> int:
    """Test a board step by step: link, memory, clock, each unit, two networks. Names the first fault and a way out.

    Exit code 4 for a fault.
    """
    chosen = find_board(board)
    if faults:
        return _list_faults()
    check_file(bundle, ".zip")
    found = find_config(config or chosen.config)
    from tosaic.driver.bring_up import StepResult, write_report
    from tosaic.driver.bring_up import bring_up as run_kit
    from tosaic.driver.transports import open_transport

    uri = on or chosen.transport

    def say(step: StepResult) -> None:
        print(f"{'ok' if step.ok else 'FAULT':5} {step.name}: {step.told}", flush=True)

    print(f"{uri}, configuration {found.name}", flush=True)
    report = run_kit(lambda: open_transport(uri), uri, found, say)
    if bundle is not None:
        with writing_whole(bundle) as scratch:
            write_report(scratch, report)
        print(f"bundle: {bundle}")
    if report.fault is None:
        print(f"{chosen.title} is well")
        return 0
    print(f"meaning: {report.fault.meaning}")
    print(f"way out: {report.fault.remedy}")
    return 4


def _list_faults() -> int:
    from tosaic.driver.bring_up import FAULTS

    for fault in FAULTS.values():
        print(f"{fault.name}: {fault.seen}\n  meaning: {fault.meaning}\n  way out: {fault.remedy}")
    return 0
