"""Operators that the machine does not have, as graphs of operators that it has. Results are equal bit for bit."""

from tosaic.compiler.ir import DType, Graph

from .conditional import inline_branches
from .integer_division import divide
from .planes import convolution_of_planes, matrix_product_of_planes
from .resize import resize
from .rewriting import Rewriting

MAX_CONVOLUTIONS = 1024
"""A CONV3D that needs more CONV2Ds than this is left as it is."""
CONVOLUTIONS = ("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")


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
    if operator.op == "COND_IF":
        return inline_branches(new)
    if operator.op == "RESIZE":
        return resize(new)
    if operator.op == "INTDIV":
        return divide(new)
    if operator.op == "MATMUL" and graph.tensors[operator.inputs[0]].dtype is DType.INT16:
        return matrix_product_of_planes(new)
    if operator.op not in CONVOLUTIONS:
        return False
    if graph.const(operator.inputs[2]) is None:
        return _bias_afterwards(new)
    if graph.tensors[operator.inputs[0]].dtype is DType.INT16:
        return convolution_of_planes(new)
    if operator.op == "TRANSPOSE_CONV2D":
        return _transpose_convolution(new)
    return operator.op == "CONV3D" and _convolution_3d(new)


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


def _transpose_convolution(new: Rewriting) -> bool:
    """Strided inputs with zero points between them, convolved with the kernel turned round (clause 2.3.11)."""
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    (top, bottom, left, right), (sy, sx) = operator.attributes["out_pad"], operator.attributes["stride"]
    (n, ih, iw, ic), (_, kh, kw, _) = new.shape(data), new.shape(weight)
    if sy > 1 or sx > 1:
        zero_point = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
        data = new.reshape(data, (n, ih, 1, iw, 1, ic))
        data = new.pad(data, [0, 0, 0, 0, 0, sy - 1, 0, 0, 0, sx - 1, 0, 0], zero_point)
        data = new.reshape(data, (n, ih * sy, iw * sx, ic))
        data = new.slice(data, (0, 0, 0, 0), (n, (ih - 1) * sy + 1, (iw - 1) * sx + 1, ic))
    turned = new.reverse(new.reverse(weight, 1), 2)
    new.add(
        "CONV2D",
        [data, turned, bias, *zero_points],
        new.shape(operator.outputs[0]),
        DType.INT32,
        operator.outputs[0],
        pad=[top + kh - 1, bottom + kh - 1, left + kw - 1, right + kw - 1],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=operator.attributes.get("acc_type"),
        local_bound=operator.attributes.get("local_bound", False),
    )
    return True


def _convolution_3d(new: Rewriting) -> bool:
    """A sum over the kernel's planes of CONV2Ds of the images that each plane meets (clause 2.3.4)."""
    graph, operator = new.graph, new.operator
    data, weight, bias, *zero_points = operator.inputs
    oc, kd, kh, kw, ic = new.shape(weight)
    (front, back, *pad), (sd, sy, sx), (dd, dy, dx) = (
        operator.attributes[name] for name in ("pad", "stride", "dilation")
    )
    n, od, oh, ow, _ = new.shape(operator.outputs[0])
    # With stride 1 the images that a plane meets lie one after the other: one convolution takes them all.
    runs = [(0, od)] if sd == 1 else [(i, 1) for i in range(od)]
    if n * len(runs) * kd > MAX_CONVOLUTIONS:
        return False
    zero_point = int(graph.operand_value(operator, "input_zp").reshape(-1)[0])
    if front or back:
        data = new.pad(data, [0, 0, front, back, 0, 0, 0, 0, 0, 0], zero_point)
    _, depth, ih, iw, _ = new.shape(data)
    images = new.reshape(data, (n * depth, ih, iw, ic))
    planes = [
        new.reshape(new.slice(weight, (0, plane, 0, 0, 0), (oc, 1, kh, kw, ic)), (oc, kh, kw, ic))
        for plane in range(kd)
    ]
    biases = [bias] + [new.zeros(1, DType.INT32)] * (len(planes) - 1)
    parts = []
    for batch in range(n):
        for first, count in runs:
            total = None
            for number, plane in enumerate(planes):
                start = batch * depth + first * sd + number * dd
                part = new.slice(images, (start, 0, 0, 0), (count, ih, iw, ic))
                shape = (count, oh, ow, oc)
                product = new.add(
                    "CONV2D",
                    [part, plane, biases[number], *zero_points],
                    shape,
                    DType.INT32,
                    pad=list(pad),
                    stride=[sy, sx],
                    dilation=[dy, dx],
                    acc_type=operator.attributes.get("acc_type"),
                    local_bound=operator.attributes.get("local_bound", False),
                )
                total = product if total is None else new.add("ADD", [total, product], shape, DType.INT32)
            assert total is not None
            parts.append(total)
    joined = parts[0]
    if len(parts) > 1:
        joined = new.add("CONCAT", parts, (n * od, oh, ow, oc), DType.INT32, axis=0)
    new.reshape(joined, (n, od, oh, ow, oc), operator.outputs[0])
    return True
