"""What a graph consists of: tensors, and operators that name them."""

from collections.abc import Iterable
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

    `op` is the TOSA name ("CONV2D"), `name` a label unique in the whole graph: "CONV2D_12", or "conv1:CONV2D_12" of
    an operator that stands for the operator "conv1" of the model that was imported. `inputs` are tensor names in the
    order of the operator table. Attribute values are Python ints, bools, strings, bytes, DTypes (`acc_type`) and lists
    of ints; enumerations (`rounding_mode`) are their names.
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.op

    @property
    def source(self) -> str:
        """Name of the operator of the imported model that this one stands for; "" where none is known."""
        return self.name.rpartition(SOURCE_END)[0]


SOURCE_END = ":"
"""Ends the source operator's name in an operator's label; what follows has none."""


def name_after(source: str, operators: Iterable[Operator]) -> None:
    """Labels operators with the source operator that they stand for, where an inner one has not done so."""
    for operator in operators:
        if not operator.source:
            operator.name = f"{source}{SOURCE_END}{operator.name}"
