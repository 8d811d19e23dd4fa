"""QuantizeLinear and DequantizeLinear in pairs: what they say of the tensor between float operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.encoding_marker import mark
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OFFSET, STORAGE, OnnxValue
from tosaic.errors import UnsupportedError

PAIR = "QuantizeDequantize"


def join_pairs(graph: Any) -> int:
    """Makes one node of each pair in an ONNX graph (changed in place); how many there are.

    A pair has one scale and one zero point, both initializers, the same on both sides; only DequantizeLinear reads
    what is between. Constants are left alone: they are folded.
    """
    onnx = load_onnx_package()
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    gone: set[str] = set()
    made: dict[int, list[Any]] = {}
    for index, node in enumerate(graph.node):
        if node.op_type != "QuantizeLinear" or node.input[0] in constants or node.output[0] in outputs:
            continue
        followers = readers.get(node.output[0], [])
        parameters = _parameters(node, constants)
        if not followers or parameters is None:
            continue
        if any(f.op_type != "DequantizeLinear" or _parameters(f, constants) != parameters for f in followers):
            continue
        results = [f.output[0] for f in followers]
        gone.update(results)
        joined = onnx.helper.make_node(
            PAIR, list(node.input), [results[0]], node.name or results[0], domain=node.domain
        )
        aliases = [onnx.helper.make_node("Identity", [results[0]], [name]) for name in results[1:]]
        made[index] = [joined, *aliases]
    nodes = []
    for index, node in enumerate(graph.node):
        if index in made:
            nodes += made[index]
        elif not (node.op_type == "DequantizeLinear" and node.output[0] in gone):
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return len(made)


def _parameters(node: Any, constants: dict[str, np.ndarray]) -> tuple[float, int, str] | None:
    """(scale, zero point, kind), if they are known and one of each; int16 must have zero point 0 as it is held."""
    if len(node.input) < 2 or node.input[1] not in constants or constants[node.input[1]].size != 1:
        return None
    scale = float(constants[node.input[1]].reshape(-1)[0])
    zero_point, kind = 0, "uint8"
    if len(node.input) > 2 and node.input[2]:
        if node.input[2] not in constants or constants[node.input[2]].size != 1:
            return None
        kind = constants[node.input[2]].dtype.name
        zero_point = int(constants[node.input[2]].reshape(-1)[0])
    if any(attribute.name == "output_dtype" and attribute.i for attribute in node.attribute):
        return None
    held = zero_point - OFFSET.get(kind, 0)
    fits = kind in ("int8", "uint8") or (kind in ("int16", "uint16") and held == 0)
    return (scale, zero_point, kind) if fits and 0 < scale < np.inf else None


def check_scale(node: Any, inputs: Sequence[OnnxValue | None]) -> None:
    """UnsupportedError for a known scale that is not finite: calibration saw an infinite mask, as it seems."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(inputs) < 2 or inputs[1] is None:
        return
    scale = inputs[1].data
    if scale is not None and not np.isfinite(scale.astype(np.float64)).all():
        raise UnsupportedError(
            f"{node.op_type} {node.name or node.output[0]!r}: its scale {node.input[1]!r} is not finite; masks of "
            "minus infinity cannot be quantized so: use a large negative number in the float model, or tosaic quantize"
        )


@handles(PAIR)
def quantize_dequantize(node: OnnxNode) -> OnnxValue:
    """A marker for the quantizer."""
    kind = node.kind(2) if node.has(2) else "uint8"
    zero_point = int(node.const(2).reshape(-1)[0]) if node.has(2) else 0
    held = zero_point - OFFSET.get(kind, 0)
    scale = float(node.const(1).reshape(-1)[0])
    return node.out_raw(mark(node.low, node.raw(0), STORAGE[kind], scale, held))
