"""Translates ONNX models (opset 7 and later) to TOSA graphs. Needs the package `onnx`.

In comes a file or a ModelProto; out comes a TOSA graph. `reader` checks the model, `importer` walks its nodes: what is
known is computed by `reference_nodes`, the rest is lowered by handlers that take an `OnnxNode`. May import `lowering`,
the IR and `nnr` (tensors that are coded).
"""

from tosaic.compiler.importers.formats import Format
from tosaic.compiler.importers.onnx_models.importer import import_onnx, import_onnx_pairs

__all__ = ["FORMAT", "import_onnx", "import_onnx_pairs"]

FORMAT = Format(import_onnx, binds_values=True)
