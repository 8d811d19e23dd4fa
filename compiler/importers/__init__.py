"""Importers: models of other formats to TOSA graphs."""

from tosaic.compiler.importers.formats import IMPORTED_SUFFIXES, import_model, is_imported, survey_model

__all__ = ["IMPORTED_SUFFIXES", "import_model", "is_imported", "survey_model"]
