"""`tosaic boot-image`: what a board's flash holds for it to start a network by itself."""

import pathlib
from typing import Annotated

import typer

from tosaic.boards.board import Board
from tosaic.boards.catalogue import known_boards
from tosaic.cli import options
from tosaic.cli.boards import find_board
from tosaic.cli.files import check_file, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.driver.configuration import find_config
from tosaic.driver.flash_image import program_boot_image
from tosaic.driver.session import Session
from tosaic.errors import InputError


def boot_image(
    model: Annotated[
        str, typer.Argument(help="A model, or a program compiled for the board's configuration (.tsc).")
    ],
    *,
    board: Annotated[str, typer.Option("--board", metavar="BOARD", help="A board that boots from flash.")],
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="FILE", help="The image file to write.")
    ],
    config: Annotated[
        str | None, typer.Option("--config", metavar="NAME", help="The configuration, if not the board's.")
    ] = None,
    verbose: options.Verbose = False,
) -> None:
    """Write what a board starts a network from without a host, and say where in its flash that belongs."""
    chosen = find_board(board)
    if config is not None:
        chosen = chosen.with_config(find_config(config).name)
    write_image(model, chosen, output)


def write_image(model: str, board: Board, output: pathlib.Path) -> None:
    """Writes the image, and says where in the flash it belongs; InputError for a board that does not boot from one."""
    flash = board.flash
    if flash is None:
        there = ", ".join(name for name, known in known_boards().items() if known.flash)
        raise InputError(f"{board.name} does not boot from flash; these do: {there}")
    check_file(output)
    from tosaic.virtual import board_speed

    speed = board_speed(board.name)
    with progress_bar(f"open {model}") as progress:
        # The emulator needs no device: this compiles, and runs nothing.
        with Session(
            model,
            "emulator",
            board.config,
            memory_bandwidth=speed.bandwidth_bytes if speed else None,
            memory_latency=speed.latency_cycles if speed else None,
            progress=progress,
        ) as session:
            program = session.program
    assert program is not None
    if program.memory_bytes > board.memory_bytes:
        raise InputError(
            f"{model} needs {program.memory_bytes} bytes of external memory, {board.name} has {board.memory_bytes}"
        )
    from tosaic.boards.soc import MEMORY_BASE

    image = program_boot_image(program, MEMORY_BASE)
    with writing_whole(output) as path:
        path.write_bytes(image)
    print(f"{output}: {len(image)} bytes, for offset 0x{flash.offset:x} of the flash")
