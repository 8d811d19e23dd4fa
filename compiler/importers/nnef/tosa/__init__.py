"""From flat NNEF graphs to TOSA graphs."""

from tosaic.compiler.importers.nnef.tosa.importer import import_nnef

__all__ = ["import_nnef"]
