"""The boards there are."""

from .arty_a7 import ARTY_A7_35T, ARTY_A7_100T
from .board import Board
from .ecpix5 import ECPIX5_85F
from .icebreaker import ICEBREAKER
from .ulx3s import ULX3S_45F, ULX3S_85F
from .zynq import KV260, PYNQ_Z2

BOARDS: dict[str, Board] = {
    board.name: board
    for board in (ULX3S_85F, ULX3S_45F, ECPIX5_85F, ICEBREAKER, ARTY_A7_35T, ARTY_A7_100T, PYNQ_Z2, KV260)
}


def get_board(name: str) -> Board:
    """The board called `name`; ValueError lists the names there are."""
    try:
        return BOARDS[name]
    except KeyError:
        raise ValueError(f"no board is called {name!r}; there are {', '.join(BOARDS)}") from None
