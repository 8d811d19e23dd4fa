"""The boards there are: those of this package, those that other packages bring, and those that a program registers."""

import importlib.metadata
import warnings
from collections.abc import Iterator

from tosaic.hw.spelling import meant
from tosaic.plugins import origin, points_of

from .arty_a7 import ARTY_A7_35T, ARTY_A7_100T
from .board import Board
from .de10_nano import DE10_NANO
from .ecpix5 import ECPIX5_85F
from .icebreaker import ICEBREAKER
from .tang_nano_20k import TANG_NANO_20K
from .ulx3s import ULX3S_45F, ULX3S_85F
from .zynq import KV260, PYNQ_Z2

GROUP = "tosaic.boards"
"""Entry points of other packages: each names a `Board`, or a sequence of them."""
BOARDS: dict[str, Board] = {
    board.name: board
    for board in (
        ULX3S_85F,
        ULX3S_45F,
        ECPIX5_85F,
        ICEBREAKER,
        TANG_NANO_20K,
        ARTY_A7_35T,
        ARTY_A7_100T,
        PYNQ_Z2,
        KV260,
        DE10_NANO,
    )
}
"""The boards of this package."""
_REGISTERED: dict[str, Board] = {}


def register_board(board: Board) -> None:
    """Let this process know one more board; ValueError if another board has its name."""
    there = known_boards().get(board.name)
    if there not in (None, board):
        raise ValueError(f"a board is called {board.name!r} already: {there.title if there else ''}")
    _REGISTERED[board.name] = board


def known_boards() -> dict[str, Board]:
    """All boards by name: first those of this package, then those of entry points, then those registered.

    A UserWarning tells of an entry point that cannot be loaded, is no board, or has a name that is taken.
    """
    boards = dict(BOARDS)
    for point in points_of(GROUP):
        for board in _loaded(point):
            if boards.setdefault(board.name, board) != board:
                warnings.warn(
                    f"{origin(point)}: a board is called {board.name!r} already; it is left out",
                    stacklevel=2,
                )
    return boards | _REGISTERED


def get_board(name: str) -> Board:
    """The board called `name`; ValueError lists the names there are."""
    boards = known_boards()
    try:
        return boards[name]
    except KeyError:
        raise ValueError(
            f"no board is called {name!r}; {meant(name, boards)}there are {', '.join(boards)}"
        ) from None


def _loaded(point: importlib.metadata.EntryPoint) -> Iterator[Board]:
    try:
        found = point.load()
        yield from _checked((found,) if isinstance(found, Board) else found)
    except Exception as error:
        # Whatever another package does wrong, the boards of this one are there.
        text = f"{origin(point)} brings no boards: {type(error).__name__}: {error}; update or uninstall it"
        warnings.warn(text, stacklevel=3)


def _checked(boards: object) -> list[Board]:
    if not isinstance(boards, list | tuple) or not all(isinstance(board, Board) for board in boards):
        raise TypeError("it is neither a tosaic.boards.board.Board nor a sequence of them")
    return list(boards)
