"""The two DMA units: LOAD and STORE."""

from .load import LoadUnit
from .store import StoreUnit

__all__ = ["LoadUnit", "StoreUnit"]
