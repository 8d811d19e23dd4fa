"""Verilog for people and for other tools: one file per module, names of the Python hierarchy, no `$` in them."""

from .convert import convert, convert_text
from .folder import write_folder, write_wishbone_folder

__all__ = ["convert", "convert_text", "write_folder", "write_wishbone_folder"]
