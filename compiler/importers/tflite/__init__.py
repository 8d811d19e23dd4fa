"""TensorFlow Lite models to TOSA: int8 operators straight to integers as TFLite's reference kernels compute them,
float ones by the shared lowering.

In comes a .tflite file, out comes a graph. `reader` makes a `source_graph` of the flatbuffer, `importer` walks it, and
handlers (registered with `handles`) build the TOSA operators. May import `lowering` and the IR.
"""

from tosaic.compiler.importers.formats import Format
from tosaic.compiler.importers.tflite.importer import import_tflite, import_tflite_integers

__all__ = ["FORMAT", "import_tflite", "import_tflite_integers"]

FORMAT = Format(import_tflite)
