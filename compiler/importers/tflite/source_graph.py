"""A TFLite model as values: what the reader makes of the flatbuffer, and the importer walks."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TensorQuantization:
    """real = scale * (q - zero point): one pair, or one for each index of `axis`. The scales are float32."""

    scales: np.ndarray
    zero_points: np.ndarray
    axis: int = 0

    @property
    def scale(self) -> np.float32:
        """The scale of the first channel, which is the only one of a tensor that is quantized as a whole."""
        return np.float32(self.scales[0])

    @property
    def zero_point(self) -> int:
        """The zero point of the first channel."""
        return int(self.zero_points[0])


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor of a subgraph. `kind` is the schema's name of its type; `signature` has -1 for each open size."""

    name: str
    kind: str
    shape: Shape
    signature: Shape
    quantization: TensorQuantization | None = None
    data: np.ndarray | None = None
    """The value of a constant, as its type holds it."""
    encoded_bytes: int = 0
    """Bytes in the file of a constant that is stored in another form than `data`."""
    is_variable: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a size is left to who runs the model."""
        return any(size < 0 for size in self.signature)


@dataclass(frozen=True)
class TfliteOperator:
    """An operator: tensors by their index, -1 for an omitted one. `options` have the schema's names (`StrideW`)."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()
    """Tensors that only tell encodings of what the kernel computes inside."""


@dataclass(frozen=True)
class TfliteSubgraph:
    """Tensors, operators in the order of execution, and the indices of inputs and outputs."""

    name: str
    tensors: list[TfliteTensor]
    operators: list[TfliteOperator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TfliteModel:
    """All subgraphs; the first is the model's own."""

    subgraphs: list[TfliteSubgraph]
    file_bytes: int
