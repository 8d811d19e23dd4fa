"""The accelerator as a Wishbone peripheral, for SoCs that speak Wishbone (LiteX and others)."""

from .control import ControlBridge
from .memory import MemoryBridge
from .signatures import WishboneControl, WishboneMemory
from .top import VERILOG_NAME, WishboneAccelerator

__all__ = [
    "VERILOG_NAME",
    "ControlBridge",
    "MemoryBridge",
    "WishboneAccelerator",
    "WishboneControl",
    "WishboneMemory",
]
