"""Translates PyTorch programs (torch.export) to TOSA graphs. Needs the packages of the extra `torch`.

In comes a module with example inputs, or a .pt2 file; `program` makes or reads the exported program and knows its
names. Two roads lead to TOSA: `onnx_road` by PyTorch's ONNX exporter and the ONNX importer, for programs of floats and
for quantized ones; `tosa_backend` by ExecuTorch's TOSA backend, for quantized ones. May import the ONNX importer and
the IR.
"""
