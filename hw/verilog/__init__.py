"""Verilog for people and for other tools: one file per module, names of the Python hierarchy, no `$` in them."""

from .convert import convert
from .folder import write_folder

__all__ = ["convert", "write_folder"]
