"""The vector unit: runs micro-programs over batches of vectors on the array's outputs and the activation memory."""

from .unit import VectorUnit

__all__ = ["VectorUnit"]
