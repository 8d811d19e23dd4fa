"""The importer of Core ML NeuralNetwork models (.mlmodel).

In comes a model's file or package; out comes a TOSA graph. `container` finds the network, `importer` walks its layers,
each of which a handler lowers as a `CoreMlNode`. May import `lowering` and the IR.
"""

from tosaic.compiler.importers.coreml.importer import import_coreml
from tosaic.compiler.importers.formats import Format

__all__ = ["FORMAT", "import_coreml"]

FORMAT = Format(import_coreml, folders=True)
