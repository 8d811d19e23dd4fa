"""The 0.30.0 file format: parameters in attributes; translated to and from the 1.0 meaning."""

from tosaic.compiler.ir.schema_0_30.reader import read
from tosaic.compiler.ir.schema_0_30.writer import write

__all__ = ["read", "write"]
