"""The 1.0 (and 1.1) file format: one attribute table per operator, parameters as operands.

`reader` makes the graph, in which `to_ir_1_1` replaces the operators that 1.1 adds; `writer` writes 1.0. May import the
rest of the IR, but not the other format.
"""

from tosaic.compiler.ir.schema_1_0.reader import read
from tosaic.compiler.ir.schema_1_0.writer import write

__all__ = ["read", "write"]
