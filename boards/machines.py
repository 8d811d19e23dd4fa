"""What executes the instruction set on a board: each kind is an entry point, so that a board loads its own alone."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tosaic.plugins import load_plugin, plugins

from .board import Board

if TYPE_CHECKING:
    from amaranth.hdl import IOPort

GROUP = "tosaic.machines"
"""Entry points, each of which names a `Machine`. Its own name is that of `Board.machine`."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """A kind of machine, with what is around it on a board."""

    top: "Callable[[Board, IOPort | None], Any]"
    """The part of a serial board that knows no pins, with the ports of `BoardTop` that it has. PackageMissing where a
    package that brings a part is not installed, as in the other functions."""
    sources: Callable[[Board], dict[str, str]]
    """Verilog by module name that the top needs beside its own."""
    versions: Callable[[Board], tuple[str, ...]]
    """Versions of the packages that bring parts: what is kept of a board depends on them."""


class BoardRefuses(ValueError):
    """There is no such machine on this board."""


def top_of(board: Board, data_pins: "IOPort | None") -> Any:
    """What `Machine.top` makes; BoardRefuses says why the board's configuration cannot be on it."""
    try:
        return machine_of(board).top(board, data_pins)
    except ValueError as error:
        raise BoardRefuses(f"{board.name} cannot have configuration {board.config}: {error}") from error


def machine_of(board: Board) -> Machine:
    """The kind of machine of a board; ValueError lists the names there are."""
    known = plugins(GROUP)
    if board.machine not in known:
        raise ValueError(f"{board.name}: there is no machine {board.machine!r}; there are {', '.join(known)}")
    return load_plugin(GROUP, board.machine, Machine)
