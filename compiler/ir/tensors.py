"""What a graph consists of: tensors, and operators that name them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tosaic.compiler.ir.dtypes import DType


@dataclass
class Tensor:
    """A named array. `data` is None unless it is a constant; then it has `shape` and `dtype.numpy`.

    A SHAPE value (TOSA's shape_t, from CONST_SHAPE) is a tensor of rank 1: `shape` is its length.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    data: np.ndarray | None = None

    def __str__(self) -> str:
        return f"{self.name!r} {self.dtype.name.lower()}{list(self.shape)}"


@dataclass
class Operator:
    """One TOSA operator.

    `op` is the TOSA name ("CONV2D"), `name` a label unique in the whole graph ("CONV2D_12"). `inputs` are
    tensor names in the order of the operator table. Attribute values are Python ints, bools, strings,
    bytes, DTypes (`acc_type`) and lists of ints; enumerations (`rounding_mode`) are their names.
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.op
