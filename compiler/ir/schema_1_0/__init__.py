"""The 1.0 (and 1.1) file format: one attribute table per operator, parameters as operands."""

from tosaic.compiler.ir.schema_1_0.reader import read
from tosaic.compiler.ir.schema_1_0.writer import write

__all__ = ["read", "write"]
