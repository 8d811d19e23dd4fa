"""What all importers share: float and integer TOSA graphs from frameworks' operators, one lowering of each.

In come operands (names of tensors) and NumPy-like parameters, out come the names of results in the graph that a
`Lowering` builds. A `SourceNode` is what a handler sees of an operator. May import the IR, and no importer.
"""

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.importers.lowering.source_node import SourceNode

__all__ = ["Lowering", "SourceNode"]
