"""The Verilated RTL in this process: `RtlSimulator` compiles it once and runs programs on it."""

from .simulator import RtlSimulator

__all__ = ["RtlSimulator"]
