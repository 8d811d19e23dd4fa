"""A whole board around the accelerator, without anything of a particular board: bridge, memory, lamps."""

from .memory import OnChipMemory
from .micro_top import MicroBoardTop
from .sdram import SdramMemory
from .sdram_words import SdramWords
from .top import MEMORY_BASE, BoardTop

__all__ = ["MEMORY_BASE", "BoardTop", "MicroBoardTop", "OnChipMemory", "SdramMemory", "SdramWords"]
