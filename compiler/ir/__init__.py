"""The compiler's IR: TOSA graphs, the operator table, and `.tosa` files."""

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.errors import (
    DeviceError,
    Error,
    InputError,
    MismatchError,
    ModelError,
    UnsupportedError,
)
from tosaic.compiler.ir.graph import Graph, Operator, Tensor
from tosaic.compiler.ir.operators import OPERATORS

__all__ = [
    "OPERATORS",
    "DType",
    "DeviceError",
    "Error",
    "Graph",
    "InputError",
    "MismatchError",
    "ModelError",
    "Operator",
    "Tensor",
    "UnsupportedError",
]
