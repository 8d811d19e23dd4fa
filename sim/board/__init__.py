"""Virtual boards: a whole board's RTL under Verilator, reached through its UART's pins."""

from .line import VirtualLine
from .simulator import BoardRtl, BoardSimulator, board_library
from .terminal import PseudoTerminal

__all__ = ["BoardRtl", "BoardSimulator", "PseudoTerminal", "VirtualLine", "board_library"]
