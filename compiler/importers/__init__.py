"""Importers: models of other formats to TOSA graphs."""

from tosaic.compiler.importers.formats import IMPORTED_SUFFIXES, import_model

__all__ = ["IMPORTED_SUFFIXES", "import_model"]
