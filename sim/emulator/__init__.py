"""The functional emulator: executes programs in program order with NumPy and predicts their cycles."""

from .external_memory import ExternalBytes
from .faults import Diverged
from .machine import Emulator
from .stepped import SteppedCore

__all__ = ["Diverged", "Emulator", "ExternalBytes", "SteppedCore"]
