"""What all importers share: float and integer TOSA graphs from frameworks' operators, one lowering of each."""

from tosaic.compiler.importers.lowering.lowering import Lowering

__all__ = ["Lowering"]
