"""Verilog for people and for other tools: one file per module, names of the Python hierarchy, no `$` in them.

In comes the RTLIL that Amaranth writes, out goes Verilog-2005: rtlil.py reads it, build.py makes statements of its
cells, simplify.py leaves out words, naming.py names what is left, merge.py makes one of modules that are alike,
writer.py writes. tests/hw/verilog proves with Yosys that nothing but words has changed."""

from .convert import Progress, convert, convert_rtlil, unseen
from .folder import write_folder, write_wishbone_folder

__all__ = ["Progress", "convert", "convert_rtlil", "unseen", "write_folder", "write_wishbone_folder"]
