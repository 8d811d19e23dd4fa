"""Operators that the machine does not have, as graphs of operators that it has. Results are equal bit for bit."""

from tosaic.compiler.ir import OPERATORS, DType, Graph, Trait
from tosaic.compiler.legalize.conditional import inline_branches
from tosaic.compiler.legalize.convolution_3d import convolution_3d
from tosaic.compiler.legalize.integer_division import divide
from tosaic.compiler.legalize.planes import convolution_of_planes, matrix_product_of_planes
from tosaic.compiler.legalize.resize import resize
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.run_time_parameters import take_parameters_as_operands
from tosaic.compiler.legalize.transposed_convolution import transpose_convolution


def decompose(graph: Graph) -> Graph:
    """A graph with the same outputs; operators for which there is no decomposition stay. The argument is unchanged."""
    graph = graph.copy()
    waiting, done = list(reversed(graph.operators)), []
    planes: dict[str, tuple[str, str]] = {}
    while waiting:
        operator = waiting.pop()
        rewriting = Rewriting(graph, operator, planes)
        if _rewrite(rewriting):
            waiting += reversed(rewriting.operators)
        else:
            done.append(operator)
    graph.operators = done
    return graph


def _rewrite(new: Rewriting) -> bool:
    graph, operator = new.graph, new.operator
    if take_parameters_as_operands(new):
        return True
    if operator.op == "COND_IF":
        return inline_branches(new)
    if operator.op == "RESIZE":
        return resize(new)
    if operator.op == "INTDIV":
        return divide(new)
    if operator.op == "MATMUL" and graph.tensors[operator.inputs[0]].dtype is DType.INT16:
        return matrix_product_of_planes(new)
    if Trait.CONVOLVES not in OPERATORS[operator.op].traits:
        return False
    if graph.const(operator.inputs[2]) is None:
        return _bias_afterwards(new)
    if graph.tensors[operator.inputs[0]].dtype is DType.INT16:
        return convolution_of_planes(new)
    if operator.op == "TRANSPOSE_CONV2D":
        return transpose_convolution(new)
    return operator.op == "CONV3D" and convolution_3d(new)


def _bias_afterwards(new: Rewriting) -> bool:
    """A bias computed at run time is added by an operator of its own: integer addition wraps in any order."""
    operator = new.operator
    output = operator.outputs[0]
    shape, dtype = new.shape(output), new.graph.tensors[output].dtype
    data, weight, bias, *zero_points = operator.inputs
    raw = new.add(
        operator.op,
        [data, weight, new.zeros(new.shape(bias)[0], dtype), *zero_points],
        shape,
        dtype,
        **operator.attributes,
    )
    along = new.reshape(bias, (*((1,) * (len(shape) - 1)), new.shape(bias)[0]))
    new.add("ADD", [raw, along], shape, dtype, output)
    return True
