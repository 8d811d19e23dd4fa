"""The 0.30.0 file format: parameters in attributes; translated to and from the 1.0 meaning.

`reader` makes operators with 0.30's attributes, `rules` checks what only 0.30 forbids, `to_ir` translates; `attributes`
translates back for `writer`. May import the rest of the IR, but not the other format.
"""

from tosaic.compiler.ir.schema_0_30.reader import read
from tosaic.compiler.ir.schema_0_30.writer import write

__all__ = ["read", "write"]
