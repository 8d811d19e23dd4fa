"""How fast the memories of devices are, by the name that a device tells: programs are made for them."""

from collections.abc import Callable
from typing import Any

Lookup = Callable[[str], Any]
"""The `MemorySpeed` of the device of a name, or None. Nothing is imported here, so that registering costs nothing."""
_LOOKUPS: list[Lookup] = []


def register_speeds(lookup: Lookup) -> None:
    """Let `speed_of` ask one more who may know."""
    _LOOKUPS.append(lookup)


def speed_of(name: str) -> Any:
    """Returns the speed that the first lookup knows; None where none does."""
    return next((speed for lookup in _LOOKUPS if (speed := lookup(name)) is not None), None)
