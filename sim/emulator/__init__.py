"""The functional emulator: executes programs in program order with NumPy and predicts their cycles."""

from .machine import Emulator

__all__ = ["Emulator"]
