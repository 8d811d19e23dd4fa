"""On-chip memories: the activation memory and the weight memory."""

from .activation import ActivationMemory
from .weight import WeightMemory

__all__ = ["ActivationMemory", "WeightMemory"]
