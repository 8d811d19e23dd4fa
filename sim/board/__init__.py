"""Virtual boards: a whole board's RTL under Verilator, reached through its UART's pins or those of its PHY."""

from .chip import ChipReport, ChipSetting
from .line import VirtualLine
from .network import VirtualPort
from .simulator import BoardRtl, BoardSimulator, board_library
from .terminal import PseudoTerminal

__all__ = [
    "BoardRtl",
    "BoardSimulator",
    "ChipReport",
    "ChipSetting",
    "PseudoTerminal",
    "VirtualLine",
    "VirtualPort",
    "board_library",
]
