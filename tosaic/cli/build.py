"""`tosaic build`: a board's bitstream."""

import dataclasses
import pathlib
import time
from typing import Annotated

import typer

from tosaic.boards.board import PARTS, Board, Family
from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.boards import board_errors, find_board
from tosaic.cli.boot_image import write_image
from tosaic.cli.files import make_folder, writing
from tosaic.driver.configuration import find_config
from tosaic.errors import Error, InputError
from tosaic.hw.config_text import config_of_hash, get_config


def _with_parts(board: Board, parts: list[str], ip: str | None) -> Board:
    """The board with these parts in use; InputError for one that it does not have, or a wrong address."""
    try:
        board = board.with_parts(*parts)
        if ip is not None:
            if board.used_ethernet is None:
                raise ValueError("--ip is the address of a board with Ethernet: add --with ethernet")
            board = dataclasses.replace(board, ethernet=dataclasses.replace(board.used_ethernet, ip=ip))
    except ValueError as error:
        raise InputError(str(error)) from error
    return board


def _with_baud(board: Board, baud: int) -> Board:
    """The board with another rate of its UART; InputError where it has none, or its clock cannot make the rate."""
    from tosaic.hw.bridge.uart import bit_cycles

    if not board.baud:
        raise InputError(f"{board.name} has no UART")
    try:
        bit_cycles(board.clock_hz, baud)
    except ValueError as error:
        raise InputError(f"{board.name}: {error}") from error
    return dataclasses.replace(board, baud=baud)


def build(
    board: Annotated[str, typer.Argument(metavar="BOARD", help="A board that `tosaic targets` lists.")],
    *,
    output: Annotated[pathlib.Path, typer.Option("-o", "--output", metavar="DIR")],
    config: Annotated[
        str | None, typer.Option("--config", metavar="NAME", help="The configuration, if not the board's.")
    ] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="PART", help=f"Use a part of the board: {', '.join(PARTS)}. May be repeated."
        ),
    ] = None,
    ip: Annotated[
        str | None, typer.Option("--ip", metavar="ADDRESS", help="The board's IP address, with Ethernet.")
    ] = None,
    baud: Annotated[
        int | None,
        typer.Option("--baud", metavar="N", help="Baud rate of the UART; 3000000 is the most at 50 MHz."),
    ] = None,
    boot: Annotated[
        str | None,
        typer.Option(
            "--boot",
            metavar="MODEL",
            help="Also write DIR/boot.bin, from which the board starts this network by itself: implies --with flash.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=1, help="Seed of the placer: another seed gives another clock.")
    ] = 1,
    verbose: options.Verbose = False,
) -> int:
    """Synthesise a board; place, route and write the bitstream where the open tools reach (ECP5, iCE40, Gowin).

    Prints what the design takes of the part and how fast it is. Exit code 1 if it does not fit or is too slow.
    """
    chosen = find_board(board)
    if config is not None:
        chosen = chosen.with_config(find_config(config).name)
    chosen = _with_parts(chosen, [*(parts or []), *(["flash"] if boot is not None else [])], ip)
    if baud is not None:
        chosen = _with_baud(chosen, baud)
    from tosaic.boards.flow import build as run_flow
    from tosaic.boards.report import usage_table
    from tosaic.sim.cache import make_cache_directory

    make_folder(output)
    if boot is not None:
        # First, because it takes seconds, and a network that does not fit ends all.
        write_image(boot, chosen, output / "boot.bin")
    cache = make_cache_directory()
    from rich.console import Console

    console = Console(stderr=True)
    began = time.monotonic()
    said = ""
    with console.status("Verilog") as status:

        def progress(what: str, detail: str) -> None:
            nonlocal said
            seconds = time.monotonic() - began
            status.update(f"{what}: {detail} ({seconds:.0f} s)")
            if not console.is_terminal and what != said:
                console.print(f"{what} {detail}".rstrip(), soft_wrap=True, highlight=False)
            said = what

        with board_errors(chosen), writing(output):
            built = run_flow(chosen, output, cache / "boards", progress, seed)
    print(f"{chosen.title}, {chosen.part}, configuration {chosen.config} at {chosen.clock_hz / 1e6:g} MHz")
    print(usage_table(chosen, built.usage, routed=built.bitstream is not None))
    if not built.fits:
        raise Error(f"configuration {chosen.config} does not fit {chosen.title}: see the table")
    if built.usage.slack_ns is not None and built.usage.slack_ns < 0:
        raise Error(
            f"{chosen.title}: timing is missed by {-built.usage.slack_ns:.2f} ns; the bitstream is not reliable"
        )
    if built.bitstream is not None:
        print(f"bitstream: {built.bitstream}")
        # The driver knows the others by their hashes.
        told = () if config_of_hash(get_config(chosen.config).hash) else ("--config", chosen.config)
        tell_next("run", "MODEL.tosa", "--random", "1", "--check", "--on", chosen.transport, *told)
    elif chosen.family is Family.CYCLONE5:
        print(
            f"{output / 'top.qpf'}: compile it with Quartus for the bitstream: quartus_sh --flow compile top"
        )
    elif not chosen.family.is_open:
        print(f"{output / 'build.tcl'}: run it with Vivado for the bitstream")
    return 0
