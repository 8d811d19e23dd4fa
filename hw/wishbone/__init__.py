"""The accelerator as a Wishbone peripheral, for SoCs that speak Wishbone (LiteX and others)."""

from .control import ControlBridge
from .memory import MemoryBridge
from .signatures import WishboneControl, WishboneMemory
from .top import WishboneAccelerator, to_verilog

__all__ = [
    "ControlBridge",
    "MemoryBridge",
    "WishboneAccelerator",
    "WishboneControl",
    "WishboneMemory",
    "to_verilog",
]
