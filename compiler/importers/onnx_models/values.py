"""ONNX values during the import, and how TOSA holds their element types."""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType

KINDS = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
"""Element types by their number in TensorProto.DataType."""

STORAGE = {
    "float32": DType.FP32,
    "float16": DType.FP16,
    "bfloat16": DType.BF16,
    "int8": DType.INT8,
    "uint8": DType.INT8,
    "int16": DType.INT16,
    "uint16": DType.INT16,
    "int32": DType.INT32,
    "int64": DType.INT32,
    "bool": DType.BOOL,
}
"""TOSA type that holds an element type. int64 is narrowed."""

OFFSET = {"uint8": 128, "uint16": 32768}
"""What is subtracted from an unsigned element to hold it in the signed type; the order of elements stays."""


@dataclass
class OnnxValue:
    """One ONNX tensor: known now (`data`), or computed at run time (`tensor`, a name in the TOSA graph).

    `kind` is the element type as NumPy spells it. A constant gets a `tensor` when one is needed.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    data: np.ndarray | None = None
    tensor: str | None = None


def constant_value(name: str, data: np.ndarray) -> OnnxValue:
    """A value that is known now."""
    data = np.asarray(data)
    return OnnxValue(name, data.dtype.name, data.shape, data)
