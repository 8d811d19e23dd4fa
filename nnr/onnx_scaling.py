"""Scales per output channel for ONNX models: weights become other weights and a Mul, which is a regular model again."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.nnr.onnx_carriage import load_onnx_package
from tosaic.nnr.onnx_tensors import SCALED_SUFFIX, SCALES_SUFFIX, model_tensors


def channel_axes(model: Any) -> dict[str, int]:
    """The axis of the output channels of each tensor of the main graph that is a layer's weights, by its name."""
    axes: dict[str, int] = {}
    known = model_tensors(model)
    for node in model.graph.node:
        if len(node.input) < 2 or node.input[1] not in known or node.domain not in ("", "ai.onnx"):
            continue
        name = node.input[1]
        rank = len(known[name].dims)
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        axis = {
            "Conv": 0,
            "ConvTranspose": 1,
            "MatMul": rank - 1,
            "Gemm": 0 if transposed else 1,
            "LSTM": 1,
            "GRU": 1,
        }
        if node.op_type in axis and rank >= 2:
            axes.setdefault(name, axis[node.op_type])
    return axes


def power_of_two_scales(values: np.ndarray, axis: int) -> np.ndarray:
    """Powers of two near the root mean square of each channel, in the values' rank; dividing by them is exact."""
    others = tuple(number for number in range(values.ndim) if number != axis)
    sizes = np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=others, keepdims=True))
    largest = float(sizes.max())
    # A channel of zeros has no size of its own; one that is far smaller than the others need not be finer than this.
    smallest = largest * 2.0**-12
    return np.exp2(np.rint(np.log2(np.maximum(sizes, smallest)))).astype(np.float32)


def scale_channels(model: Any, scales: Mapping[str, np.ndarray]) -> Any:
    """A copy of a ModelProto in which each tensor NAME of `scales` is the product of NAME/scaled and
    NAME/channel_scales: constants, which every runtime folds. The tensors are of the main graph."""
    onnx = load_onnx_package()
    scaled = onnx.ModelProto()
    scaled.CopyFrom(model)
    graph = scaled.graph
    products = []
    held = model_tensors(scaled)
    for name, factors in scales.items():
        weights = onnx.numpy_helper.to_array(held[name]) / factors
        for part, values in ((SCALED_SUFFIX, weights), (SCALES_SUFFIX, factors)):
            graph.initializer.append(onnx.numpy_helper.from_array(values, name + part))
        products.append(onnx.helper.make_node("Mul", [name + SCALED_SUFFIX, name + SCALES_SUFFIX], [name]))
    kept = [each for each in graph.initializer if each.name not in scales]
    nodes = [
        node for node in graph.node if not (node.op_type == "Constant" and list(node.output)[0] in scales)
    ]
    # Copies, for clearing a field destroys what it held.
    tensors = [onnx.TensorProto.FromString(each.SerializeToString()) for each in kept]
    copies = [onnx.NodeProto.FromString(each.SerializeToString()) for each in (*products, *nodes)]
    graph.ClearField("initializer")
    graph.initializer.extend(tensors)
    graph.ClearField("node")
    graph.node.extend(copies)
    return scaled
