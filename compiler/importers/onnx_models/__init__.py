"""ONNX models (opset 7 and later) to TOSA graphs. Needs the package `onnx`."""

from tosaic.compiler.importers.onnx_models.importer import import_onnx, import_onnx_pairs

__all__ = ["import_onnx", "import_onnx_pairs"]
