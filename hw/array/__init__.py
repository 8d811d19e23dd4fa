"""The multiplier array: output stationary, and tap stationary for depthwise convolutions."""

from .unit import ArrayUnit

__all__ = ["ArrayUnit"]
