"""The compiler's IR: TOSA graphs, the operator table, validation and `.tosa` files."""

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.float_formats import is_representable, nearest
from tosaic.compiler.ir.graph import Graph, Operator, State, Tensor
from tosaic.compiler.ir.graph_builder import GraphBuilder
from tosaic.compiler.ir.operators import OPERATORS
from tosaic.compiler.ir.tosa_file import read_tosa, write_tosa
from tosaic.compiler.ir.validate import validate

__all__ = [
    "OPERATORS",
    "DType",
    "Graph",
    "GraphBuilder",
    "Operator",
    "State",
    "Tensor",
    "is_representable",
    "nearest",
    "read_tosa",
    "validate",
    "write_tosa",
]
