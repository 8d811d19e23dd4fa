"""The compiler's IR: TOSA graphs in their 1.0 meaning, the operator table, validation and `.tosa` files.

In come `.tosa` files and what builders add; out come graphs that `validate` accepts, and files again. The rest of the
compiler, the importers, the quantizer and the golden model stand on this folder; it may import `errors` only.

Its floors, each of which imports lower ones: `dtypes`, `encoding`, `tensors`; `operators` (the table: shapes, types and
rules of each operator); `graph`; `topology`, `validate`; `building` (builder, constant folder, cleaning);
`schema_0_30` and `schema_1_0` (the file formats); `tosa_file`.
"""

from tosaic.compiler.ir.building import GraphBuilder
from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.encoding import CurvedEncoding, Encoding, EncodingCurve, unsigned_type
from tosaic.compiler.ir.float_formats import is_representable, nearest
from tosaic.compiler.ir.graph import Declared, Graph, GraphIndex, State
from tosaic.compiler.ir.operators import OPERATORS, ByOperator, Trait, data_inputs, operators_with
from tosaic.compiler.ir.tensors import Operator, Tensor
from tosaic.compiler.ir.tosa_file import read_tosa, write_tosa
from tosaic.compiler.ir.unsigned import unsigned_ports
from tosaic.compiler.ir.validate import validate

__all__ = [
    "OPERATORS",
    "ByOperator",
    "DType",
    "Declared",
    "EncodingCurve",
    "CurvedEncoding",
    "Encoding",
    "Graph",
    "GraphBuilder",
    "GraphIndex",
    "Operator",
    "State",
    "Tensor",
    "Trait",
    "data_inputs",
    "is_representable",
    "nearest",
    "operators_with",
    "read_tosa",
    "unsigned_ports",
    "unsigned_type",
    "validate",
    "write_tosa",
]
