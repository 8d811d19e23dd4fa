"""MATMULs of one row with a transposed matrix: queries of a decoder with its keys.

The array packs its second operand, which a transposed matrix makes dear, and uses one of its rows for the single row of
the first. The same sums are those of the matrix as it was before the TRANSPOSE with the row as a column.
"""

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.strided import strided


def turn_single_rows(graph: Graph) -> Graph:
    """A graph with the same outputs; TRANSPOSEs that nobody reads any more are left in it."""
    graph = graph.copy()
    index, done = graph.index(), list[Operator]()
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        if operator.op == "MATMUL" and _rewrite(new, index):
            done += new.operators
        else:
            done.append(operator)
    graph.operators = done
    return graph


def _rewrite(new: Rewriting, index: GraphIndex) -> bool:
    a, b, a_zp, b_zp = new.operator.inputs
    (n, h, c), width = new.shape(a), new.shape(b)[2]
    seen = strided(new.graph, index, b)
    if h != 1 or width == 1 or seen is None or new.graph.tensors[a].dtype is not DType.INT8:
        return False
    dense = zip((n, c, width), (width * c, 1, c), strict=True)
    if seen.strides != tuple(0 if size == 1 else stride for size, stride in dense):
        return False
    matrix, column = new.reshape(seen.source, (n, width, c)), new.reshape(a, (n, c, 1))
    product = new.add("MATMUL", [matrix, column, b_zp, a_zp], (n, width, 1), DType.INT32)
    new.reshape(product, (n, 1, width), new.operator.outputs[0])
    return True
