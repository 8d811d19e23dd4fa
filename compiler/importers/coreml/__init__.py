"""The importer of Core ML NeuralNetwork models (.mlmodel).

In comes a model's file or package; out comes a TOSA graph. `container` finds the network, `importer` walks its layers,
each of which a handler lowers as a `CoreMlNode`. May import `lowering` and the IR.
"""

from tosaic.compiler.importers.coreml.importer import import_coreml

__all__ = ["import_coreml"]
