"""The vector unit: runs micro-programs over batches of vectors on the array's outputs and the activation memory."""

from .pipeline import LATENCY_CYCLES
from .unit import VectorUnit

__all__ = ["LATENCY_CYCLES", "VectorUnit"]
