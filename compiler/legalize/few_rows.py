"""MATMULs of a few rows with a transposed matrix: queries of a decoder with its keys.

The array packs its second operand, which a transposed matrix makes dear, and has 16 rows or so for those of the first.
The same sums are those of the matrix as it was before the TRANSPOSE with the rows as columns.
"""

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import strided
from tosaic.compiler.machine_numbers import FEW_ROWS_DEPTH_PART
from tosaic.hw.config import Config


def turn_few_rows(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; TRANSPOSEs that nobody reads any more are left in it."""
    graph = graph.copy()
    index, done = graph.index(), list[Operator]()
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        if operator.op == "MATMUL" and _rewrite(new, index, config):
            done += new.operators
        else:
            done.append(operator)
    graph.operators = done
    return graph


def _rewrite(new: Rewriting, index: GraphIndex, config: Config) -> bool:
    a, b, a_zp, b_zp = new.operator.inputs
    (n, h, c), width = new.shape(a), new.shape(b)[2]
    seen = strided(new.graph, index, b)
    if width == 1 or seen is None or new.graph.tensors[a].dtype is not DType.INT8:
        return False
    if h > 1 and (h > min(config.rows, c // FEW_ROWS_DEPTH_PART) or width < config.columns):
        return False
    dense = zip((n, c, width), (width * c, 1, c), strict=True)
    if seen.strides != tuple(0 if size == 1 else stride for size, stride in dense):
        return False
    columns = new.transpose(a, (0, 2, 1)) if h > 1 else new.reshape(a, (n, c, 1))
    matrix = new.reshape(seen.source, (n, width, c))
    product = new.add("MATMUL", [matrix, columns, b_zp, a_zp], (n, width, h), DType.INT32)
    if h > 1:
        new.transpose(product, (0, 2, 1), new.operator.outputs[0])
    else:
        new.reshape(product, (n, 1, width), new.operator.outputs[0])
    return True
