"""Boards by name, and what their tools say, as errors of one line."""

import contextlib
from collections.abc import Iterator

from tosaic.boards.board import Board
from tosaic.boards.catalogue import get_board
from tosaic.errors import Error, InputError
from tosaic.install import install_command


def find_board(name: str) -> Board:
    """The board called `name`; InputError lists those there are."""
    try:
        return get_board(name)
    except ValueError as error:
        raise InputError(str(error)) from None


@contextlib.contextmanager
def board_errors(board: Board) -> Iterator[None]:
    """A missing package, a failing tool, or a configuration that the board cannot have, as one line."""
    from tosaic.boards.machines import BoardRefuses
    from tosaic.boards.tools import ToolError, extra_of
    from tosaic.hw.package_missing import PackageMissing

    try:
        yield
    except (PackageMissing, ToolError) as error:
        raise Error(f"{error}; {install_command(error.extra)}" if error.extra else str(error)) from error
    except BoardRefuses as error:
        raise InputError(str(error)) from error
    except ImportError as error:
        if error.name is None or not error.name.startswith("amaranth_boards"):
            raise
        command = install_command(extra_of(board.family))
        raise Error(f"the Python package amaranth-boards is missing; {command}") from error
