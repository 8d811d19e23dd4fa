"""Verilog for people and for other tools: one file per module, names of the Python hierarchy, no `$` in them."""

from .convert import Progress, convert, convert_text, unseen
from .folder import write_folder, write_wishbone_folder

__all__ = ["Progress", "convert", "convert_text", "unseen", "write_folder", "write_wishbone_folder"]
