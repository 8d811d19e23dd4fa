"""What a TFLite tensor is in the TOSA graph under construction."""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.tflite.source_graph import TensorQuantization
from tosaic.compiler.ir import DType

STORAGE = {
    "FLOAT32": DType.FP32,
    "FLOAT16": DType.FP32,
    "FLOAT64": DType.FP32,
    "INT8": DType.INT8,
    "UINT8": DType.INT8,
    "INT4": DType.INT8,
    "INT2": DType.INT8,
    "INT16": DType.INT16,
    "UINT16": DType.INT16,
    "INT32": DType.INT32,
    "UINT32": DType.INT32,
    "INT64": DType.INT32,
    "BOOL": DType.BOOL,
    "COMPLEX64": DType.FP32,
}
"""TOSA type that holds a type of the schema; complex numbers have a last axis of two."""

OFFSET = {"UINT8": 128, "UINT16": 1 << 15}
"""Unsigned integers are held less this."""

INTEGER_KINDS = ("INT8", "UINT8", "INT16", "INT4", "INT2", "UINT16")
"""Kinds that may stand for reals."""

RANGES = {"INT8": (-128, 127), "UINT8": (-128, 127), "INT16": (-(1 << 15), (1 << 15) - 1)}
"""What a quantized result is limited to, as it is held."""


@dataclass(frozen=True)
class TfliteValue:
    """A tensor of the source as it is held: `tensor` in the TOSA graph."""

    tensor: str
    kind: str
    name: str
    quantization: TensorQuantization | None = None

    @property
    def is_quantized(self) -> bool:
        """Whether its integers stand for reals."""
        return self.quantization is not None and self.kind in INTEGER_KINDS

    @property
    def scales_count(self) -> int:
        """Scales of a quantized tensor."""
        assert self.quantization is not None
        return self.quantization.scales.size

    @property
    def scale(self) -> np.float32:
        """The only scale of a quantized tensor."""
        assert self.quantization is not None
        return self.quantization.scale

    @property
    def zero_point(self) -> int:
        """The only zero point of a quantized tensor, as it is held."""
        assert self.quantization is not None
        return self.quantization.zero_point - OFFSET.get(self.kind, 0)
