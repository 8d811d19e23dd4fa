"""A whole board around the accelerator, without anything of a particular board: bridge, memory, lamps."""

from .memory import OnChipMemory
from .sdram import SdramMemory
from .top import MEMORY_BASE, BoardTop

__all__ = ["MEMORY_BASE", "BoardTop", "OnChipMemory", "SdramMemory"]
