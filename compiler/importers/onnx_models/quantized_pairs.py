"""QuantizeLinear and DequantizeLinear as markers: what they say of the tensors between float operators."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering.encoding_marker import mark_dequantized, mark_quantized
from tosaic.compiler.importers.onnx_models.node import OnnxNode, storage
from tosaic.compiler.importers.onnx_models.values import KINDS, OFFSET, STORAGE, OnnxValue
from tosaic.errors import UnsupportedError

_HELD = ("int8", "uint8", "int16", "uint16")


def as_marker(node: OnnxNode) -> OnnxValue | None:
    """A marker for the quantizer, in the place of a node; None for what computes in floats as well as in integers.

    UnsupportedError for a QuantizeLinear whose integers the machine has not: it has one scale and one zero point for a
    tensor, and none for 16 bits.
    """
    if node.op not in ("QuantizeLinear", "DequantizeLinear") or node.value(0).data is not None:
        return None
    if node.op == "QuantizeLinear":
        kind = _result_kind(node)
        if kind not in _HELD:
            node.unsupported(f"it makes {kind}", "quantize activations to int8 or uint8")
        encoding = _encoding(node, kind)
        return node.out_raw(mark_quantized(node.low, node.raw(0), STORAGE[kind], *encoding), kind)
    if node.kind(0) not in _HELD or not all(_is_one(node, index) for index in (1, 2)):
        return None
    encoding = _encoding(node, node.kind(0))
    number = int(node.attr("output_dtype", 0))
    kind = KINDS.get(number, "float32") if number else node.kind(1)
    return node.out_raw(mark_dequantized(node.low, node.raw(0), storage(node, kind), *encoding), kind)


def _result_kind(node: OnnxNode) -> str:
    number = int(node.attr("output_dtype", 0))
    if node.has(2):
        return node.kind(2)
    return KINDS.get(number, f"data type {number}") if number else "uint8"


def _is_one(node: OnnxNode, index: int) -> bool:
    """Whether a scale or zero point is known, and one number."""
    if not node.has(index):
        return True
    data = node.value(index).data
    return data is not None and data.size == 1


def _encoding(node: OnnxNode, kind: str) -> tuple[float, int]:
    """Scale and zero point of integers, as they are held."""
    for index, what in ((1, "scale"), (2, "zero point")):
        if _is_one(node, index):
            continue
        value = node.value(index)
        if value.data is None:
            node.unsupported(
                f"its {what} {value.name!r} is computed at run time",
                "quantize the model statically, with calibration data, or give the float model to tosaic quantize",
            )
        node.unsupported(
            f"its {what} {value.name!r} has {value.data.size} elements",
            "give an activation one scale and zero point",
        )
    scale = float(node.const(1).reshape(-1)[0])
    if not 0 < scale < np.inf:
        node.unsupported(f"its scale {node.value(1).name!r} is {scale}", "quantize the model again")
    zero_point = int(node.const(2).reshape(-1)[0]) if node.has(2) else 0
    held = zero_point - OFFSET.get(kind, 0)
    if held and STORAGE[kind].bits == 16:
        name = node.value(2).name if node.has(2) else "0, its default,"
        node.unsupported(
            f"its zero point {name!r} is {zero_point}, and integers of 16 bits have {OFFSET.get(kind, 0)} here",
            "quantize with symmetric activations (ONNX Runtime: extra_options={'ActivationSymmetric': True}), or give "
            "it to tosaic quantize --activations int16",
        )
    return scale, held


def check_scale(node: Any, inputs: Sequence[OnnxValue | None]) -> None:
    """Raises UnsupportedError for a known scale that is not finite: calibration saw an infinite mask, as it seems."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(inputs) < 2 or inputs[1] is None:
        return
    scale = inputs[1].data
    if scale is not None and not np.isfinite(scale.astype(np.float64)).all():
        raise UnsupportedError(
            f"{node.op_type} {node.name or node.output[0]!r}: its scale {node.input[1]!r} is not finite; masks of "
            "minus infinity cannot be quantized so: use a large negative number in the float model, or tosaic quantize"
        )
