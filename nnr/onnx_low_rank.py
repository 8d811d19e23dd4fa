"""Low rank for ONNX models (9.1): one layer becomes two with fewer weights, which is a regular model again."""

from typing import Any

import numpy as np

from tosaic.nnr.onnx_carriage import load_onnx_package
from tosaic.nnr.reduce import low_rank, rank_for


def factor_layers(model: Any, energy: float) -> tuple[Any, list[str]]:
    """A copy of a ModelProto in which products and convolutions are split where that needs fewer weights.

    The rank is the smallest that keeps the share `energy` of a weight's sum of squares. MatMul and Gemm with constant
    float32 weights become two products, Conv without groups becomes a Conv to `rank` channels and a 1x1 Conv (reshaping
    mode 4). Also returns the names of the weights that were split. Raises NnrError unless 0 < energy <= 1.
    """
    onnx = load_onnx_package()
    factored = onnx.ModelProto()
    factored.CopyFrom(model)
    graph = factored.graph
    nodes, names = [], []
    for node in graph.node:
        weight = _sole_weight(graph, node)
        first = _split(onnx, graph, node, weight, energy) if weight is not None else None
        if weight is not None and first is not None:
            nodes.append(first)
            names.append(weight.name)
            graph.initializer.remove(weight)
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return factored, names


def _sole_weight(graph: Any, node: Any) -> Any:
    """The initializer that is the node's second input and nothing else's, or None."""
    if node.op_type not in ("MatMul", "Gemm", "Conv") or node.domain not in ("", "ai.onnx"):
        return None
    name = node.input[1]
    uses = sum(list(other.input).count(name) for other in graph.node)
    overridable = name in {value.name for value in graph.input}
    shown = name in {value.name for value in graph.output}
    nested = any(
        attribute.HasField("g") or attribute.graphs for each in graph.node for attribute in each.attribute
    )
    if uses != 1 or overridable or shown or nested:
        return None
    return next((tensor for tensor in graph.initializer if tensor.name == name), None)


def _split(onnx: Any, graph: Any, node: Any, weight: Any, energy: float) -> Any:
    """The layer to put before `node`, which now takes its output and the smaller weights; None where nothing is won."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    values = onnx.numpy_helper.to_array(weight)
    transposed = node.op_type == "Gemm" and bool(attributes.get("transB", 0))
    convolution = node.op_type == "Conv"
    if values.dtype != np.float32 or attributes.get("transA", 0) or attributes.get("group", 1) != 1:
        return None
    if convolution and values.ndim < 3 or not convolution and values.ndim != 2:
        return None
    matrix = values.reshape(values.shape[0], -1).T if convolution else values.T if transposed else values
    if not np.isfinite(matrix).all() or not matrix.size:
        return None
    rank = rank_for(matrix, energy)
    if rank * sum(matrix.shape) >= matrix.size:
        return None
    left, right = low_rank(matrix, rank)
    if convolution:
        left = left.T.reshape(rank, *values.shape[1:])
        right = right.T.reshape(values.shape[0], rank, *[1] * (values.ndim - 2))
    elif transposed:
        right = right.T
    middle = f"{weight.name}/rank_{rank}"
    for suffix, factor in (("left", left), ("right", right)):
        graph.initializer.append(
            onnx.numpy_helper.from_array(np.ascontiguousarray(factor), f"{middle}/{suffix}")
        )
    # A first product needs no options; a first convolution has the windows, the second is 1x1.
    first = onnx.helper.make_node(
        "Conv" if convolution else "MatMul",
        [node.input[0], f"{middle}/left"],
        [middle],
        f"{node.name}/left" if node.name else "",
    )
    if convolution:
        first.attribute.extend(node.attribute)
        del node.attribute[:]
    node.input[0], node.input[1] = middle, f"{middle}/right"
    return first
