"""The control port: AXI4-Lite, registers, counters, and what they say to the rest of the machine."""

from .control import Control
from .counters import Events
from .run import Report, RunControl

__all__ = ["Control", "Events", "Report", "RunControl"]
