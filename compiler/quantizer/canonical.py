"""Float graphs in the form that the quantizer reads: constants folded, products with constants as convolutions."""

import math
from collections import Counter

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator, Trait, operators_with
from tosaic.compiler.ir.building import (
    Evaluate,
    FoldingBuilder,
    add_constant,
    drop_identities,
    fold_constants,
    remove_dead,
    sizes,
)
from tosaic.compiler.ir.topology import sort_operators
from tosaic.compiler.quantizer.means import take_means_out
from tosaic.compiler.quantizer.shares import divide_products

MACS = operators_with(Trait.CONVOLVES)
"""Operators with weights; MATMUL has none."""
PRODUCTS = MACS | {"MATMUL"}


def canonical(graph: Graph, evaluate: Evaluate) -> Graph:
    """A float graph of the same meaning for the quantizer; `evaluate` computes an operator of constants.

    MATMULs with a constant become CONV2D, products over an axis products of its halves, and constants that are added to
    a convolution's result, or multiply it, go into its bias and weights. Tensors that remain keep their names.
    """
    result = graph.copy()
    fold_constants(result, evaluate)
    _reductions_to_products(result)
    drop_identities(result)
    divide_products(result)
    _products_to_convolutions(result)
    while _absorb_one(result):
        pass
    take_means_out(result)
    remove_dead(result)
    sort_operators(result)
    return result


def _reductions_to_products(graph: Graph) -> None:
    """REDUCE_PRODUCT of reals by MULs: half of the axis by the other half, until one element is left."""
    operators = []
    for op in graph.operators:
        if op.op != "REDUCE_PRODUCT" or not graph.tensors[op.inputs[0]].dtype.is_float:
            operators.append(op)
            continue
        new, axis, (x,) = FoldingBuilder(GraphBuilder.replacing(graph, op)), op.attributes["axis"], op.inputs
        while (count := new.shape(x)[axis]) > 1:
            halves = [new.slice_axis(x, axis, start, count // 2) for start in (0, count // 2)]
            rest = [new.slice_axis(x, axis, count - 1, 1)] if count % 2 else []
            x = new.concat([new.op("MUL", *halves, new.constant([0], DType.INT8)), *rest], axis)
        new.op("RESHAPE", x, sizes(new.shape(x)), output=op.outputs[0])
        operators += new.build.operators
    graph.operators = operators


def _products_to_convolutions(graph: Graph) -> None:
    operators = []
    rows: dict[str, str] = {}
    """The form in which all products of one tensor (query, key and value) read it."""
    for op in graph.operators:
        weight = graph.tensors[op.inputs[1]].data if op.op == "MATMUL" else None
        if weight is None or weight.shape[0] != 1 or not graph.tensors[op.inputs[0]].dtype.is_float:
            operators.append(op)
            continue
        _, height, depth = graph.tensors[op.inputs[0]].shape
        width, dtype = weight.shape[2], graph.tensors[op.outputs[0]].dtype
        new = FoldingBuilder(GraphBuilder.replacing(graph, op))
        if op.inputs[0] not in rows:
            rows[op.inputs[0]] = new.reshape(op.inputs[0], (height, 1, 1, depth))
        flat = new.op(
            "CONV2D",
            rows[op.inputs[0]],
            add_constant(graph, f"{op.inputs[1]}/kernel", weight[0].T[:, None, None, :], dtype),
            add_constant(graph, f"{op.outputs[0]}/bias", np.zeros(width), dtype),
            *op.inputs[2:],
            dtype=dtype,
            pad=[0] * 4,
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.FP32,
        )
        new.op("RESHAPE", flat, sizes((1, height, width)), output=op.outputs[0])
        operators += new.build.operators
    graph.operators = operators


def _absorb_one(graph: Graph) -> bool:
    """Moves one constant into the convolution before it; False when there is none."""
    producers = {name: op for op in graph.operators for name in op.outputs}
    readers = Counter(name for op in graph.operators for name in op.inputs)
    readers.update(graph.outputs)
    for op in graph.operators:
        if op.op not in ("ADD", "SUB", "MUL"):
            continue
        for variable, other in ((0, 1), (1, 0)):
            constant = graph.tensors[op.inputs[other]].data
            if constant is None or (op.op == "SUB" and variable == 1):
                continue
            source = _convolution_before(graph, producers, readers, op.inputs[variable])
            if (
                source is None
                or graph.tensors[op.outputs[0]].shape != graph.tensors[op.inputs[variable]].shape
            ):
                continue
            line = _per_channel(constant, graph.tensors[op.inputs[variable]].shape[-1])
            if line is None or not _apply(graph, source, op, line):
                continue
            _replace(graph, op, op.inputs[variable])
            return True
    return False


def _convolution_before(
    graph: Graph, producers: dict[str, Operator], readers: Counter[str], tensor: str
) -> Operator | None:
    """The convolution that computes `tensor` for this reader alone, RESHAPEs that keep the channels aside."""
    channels = graph.tensors[tensor].shape[-1:]
    while True:
        op = producers.get(tensor)
        if op is None or readers[tensor] != 1 or graph.tensors[tensor].shape[-1:] != channels:
            return None
        if op.op in MACS:
            constants = all(graph.tensors[name].data is not None for name in op.inputs[1:3])
            return op if constants and graph.tensors[tensor].dtype.is_float else None
        if op.op != "RESHAPE":
            return None
        tensor = op.inputs[0]


def _per_channel(constant: np.ndarray, channels: int) -> np.ndarray | None:
    """A constant that differs along the last axis only, as [channels]; None for any other."""
    if constant.size not in (1, channels) or (constant.size > 1 and constant.shape[-1] != channels):
        return None
    return np.broadcast_to(constant.reshape(-1), (channels,)).astype(np.float64)


def _apply(graph: Graph, mac: Operator, op: Operator, line: np.ndarray) -> bool:
    weight, bias = (graph.tensors[name] for name in mac.inputs[1:3])
    assert weight.data is not None and bias.data is not None
    if not np.all(np.isfinite(line)):
        return False
    new_bias = np.broadcast_to(bias.data.astype(np.float64), line.shape)
    if op.op == "MUL":
        wide = weight.data.astype(np.float64)
        if mac.op == "DEPTHWISE_CONV2D":
            wide = wide * line.reshape(wide.shape[2:])
        else:
            wide = wide * line.reshape(-1, *[1] * (wide.ndim - 1))
        mac.inputs[1] = add_constant(graph, f"{weight.name}/scaled", wide, weight.dtype)
        new_bias = new_bias * line
    else:
        new_bias = new_bias + (line if op.op == "ADD" else -line)
    mac.inputs[2] = add_constant(graph, f"{bias.name}/sum", new_bias, bias.dtype)
    return True


def _replace(graph: Graph, op: Operator, source: str) -> None:
    """Removes an operator: the tensor `source`, which nothing else reads, takes the name of its result."""
    result = op.outputs[0]
    graph.operators = [other for other in graph.operators if other is not op]
    for other in graph.operators:
        other.outputs = [result if name == source else name for name in other.outputs]
    del graph.tensors[source]


def channels_of(weight: np.ndarray, mac: str) -> np.ndarray:
    """Weights as [output channel, taps]."""
    if mac == "DEPTHWISE_CONV2D":
        return weight.reshape(-1, math.prod(weight.shape[2:])).T
    return weight.reshape(weight.shape[0], -1)
