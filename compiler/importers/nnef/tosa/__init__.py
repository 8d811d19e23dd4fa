"""Translates flat NNEF graphs to TOSA graphs.

In comes what `nnef.model` loads; out comes a TOSA graph, each operation lowered by a handler that takes an `NnefNode`.
May import the rest of `nnef`, `lowering` and the IR.
"""

from tosaic.compiler.importers.formats import Format
from tosaic.compiler.importers.nnef.tosa.importer import import_nnef

__all__ = ["FORMAT", "import_nnef"]

FORMAT = Format(import_nnef, folders=True)
