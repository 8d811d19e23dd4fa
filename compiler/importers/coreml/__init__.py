"""The importer of Core ML NeuralNetwork models (.mlmodel)."""

from tosaic.compiler.importers.coreml.importer import import_coreml

__all__ = ["import_coreml"]
