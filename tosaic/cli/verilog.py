"""`tosaic verilog`: the accelerator as Verilog."""

import pathlib
import shlex
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.boards import board_errors, find_board
from tosaic.cli.files import make_folder, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config


def verilog(
    output: Annotated[pathlib.Path, typer.Option("-o", "--output", metavar="DIR")],
    config: options.Config = "base",
    sizes: options.Set = None,
    board: Annotated[
        str | None,
        typer.Option(
            "--board", metavar="BOARD", help="Write a whole board's design, with constraints and scripts."
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            metavar="MODEL",
            help="Add the memory of a run of MODEL with made-up inputs; the testbench then says PASS or FAIL.",
        ),
    ] = None,
    wishbone: Annotated[
        bool, typer.Option("--wishbone", help="Write Wishbone ports in place of AXI, and no testbench.")
    ] = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the Verilog of a configuration (AXI4 and AXI4-Lite top), with testbench, register map and driver notes."""
    if wishbone and (board is not None or network is not None):
        raise typer.BadParameter("--wishbone goes with neither --board nor --network: leave out one")
    if board is not None:
        if network is not None:
            raise typer.BadParameter(
                "--network belongs to a configuration's testbench, and a board has none: leave out one"
            )
        _board_verilog(board, output)
        return
    chosen = find_config(options.sized(config, sizes))
    from tosaic.driver.bench_run import bench_run
    from tosaic.hw.verilog import write_folder, write_wishbone_folder
    from tosaic.hw.verilog.bench_run import BENCH

    with progress_bar("verilog") as progress:
        run = bench_run(network, chosen, progress) if network is not None else None
        make_folder(output)
        with writing(output):
            written = (
                write_wishbone_folder(chosen, output, progress)
                if wishbone
                else write_folder(chosen, output, run, progress)
            )
    top = "tosaic_wishbone" if wishbone else "tosaic"
    print(
        f"{output / top}.f: {written.modules} modules, {written.lines:,} lines, configuration {chosen.name}, "
        f"top module {top}"
    )
    if run is not None:
        print(
            f"{output / BENCH}: {network}, {len(run.memory):,} bytes of memory; it compares "
            f"{sum(len(data) for _, data in run.expected):,} bytes of outputs with the golden model's"
        )
        simulate = f"iverilog -g2005 -s tosaic_bench -o bench -f {top}.f {BENCH} && vvp bench"
        print(f"next: cd {shlex.quote(str(output))} && {simulate}")
    elif not wishbone:
        tell_next(
            "verilog", "--config", options.sized(config, sizes), "--network", "MODEL.tosa", "-o", output
        )


def _board_verilog(name: str, output: pathlib.Path) -> None:
    board = find_board(name)
    from tosaic.boards.project import make_project, write_project

    with board_errors(board), progress_bar("verilog") as progress:
        project = make_project(board, progress)
    make_folder(output)
    with writing(output):
        write_project(project, output)
    files = ", ".join(["rtl/*.v", *project.files])
    print(f"{output}: {files}, configuration {board.config}, top module {project.top}")
