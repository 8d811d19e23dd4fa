"""The compiler's IR: TOSA graphs, the operator table, validation and `.tosa` files."""

from tosaic.compiler.ir.building import GraphBuilder
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.float_formats import is_representable, nearest
from tosaic.compiler.ir.graph import Graph, GraphIndex, State
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.compiler.ir.tosa_file import read_tosa, write_tosa
from tosaic.compiler.ir.validate import validate

__all__ = [
    "OPERATORS",
    "DType",
    "Graph",
    "GraphBuilder",
    "GraphIndex",
    "Operator",
    "State",
    "Tensor",
    "is_representable",
    "nearest",
    "read_tosa",
    "validate",
    "write_tosa",
]
