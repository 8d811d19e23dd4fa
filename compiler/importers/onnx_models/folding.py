"""Nodes whose inputs are all known are computed now, by the reference operators of the package onnx."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.values import Value
from tosaic.compiler.ir import UnsupportedError

_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
# The reference operator for n-grams takes the time that its attributes say.
_NEVER = (*_RANDOM, "If", "Loop", "Scan", "Dropout", "TfIdfVectorizer")


LARGEST = 1 << 28
"""Elements of the largest constant that is computed; VGG-19 has one of 103 million."""


def foldable(op: str, inputs: Sequence[Value | None]) -> bool:
    """Whether a node can be computed now."""
    return op not in _NEVER and all(value is None or value.data is not None for value in inputs)


def fold(node: Any, inputs: Sequence[Value | None], opset: int) -> list[np.ndarray] | None:
    """The node's results; None when the reference operators do not compute it."""
    onnx = load_onnx_package()
    count = _elements(node.op_type, inputs)
    if count > LARGEST:
        raise UnsupportedError(
            f"{node.op_type} {node.output[0]!r} makes a constant of {count:,} elements; at most {LARGEST:,} are "
            "computed: make it smaller"
        )
    feeds = {
        name: value.data for name, value in zip(node.input, inputs, strict=True) if value is not None and name
    }
    try:
        infos = [onnx.helper.make_tensor_value_info(name, 0, None) for name in feeds]
        outputs = [onnx.helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "folding", infos, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        with np.errstate(all="ignore"):
            results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        # Whatever the reference cannot do is left to the lowering, which says what it cannot do.
        return None
    if any(not isinstance(result, np.ndarray | np.generic) for result in results):
        return None  # a sequence or an optional
    found = iter(results)
    values = [np.asarray(next(found)) if name else np.zeros(0) for name in node.output]
    return None if any(value.dtype == object for value in values) else values


def _elements(op: str, inputs: Sequence[Value | None]) -> int:
    """Elements of the result of an operator whose result may be far larger than its inputs."""
    data = [None if value is None else value.data for value in inputs]
    if op == "ConstantOfShape" and data[0] is not None:
        return math.prod(int(size) for size in data[0].reshape(-1))
    if op in ("Expand", "Tile") and data[0] is not None and data[1] is not None:
        return math.prod(int(size) for size in data[1].reshape(-1)) * data[0].size
    if op == "OneHot" and data[0] is not None and data[1] is not None:
        return int(data[1].reshape(-1)[0]) * data[0].size
    if op == "Range" and all(value is not None for value in data):
        start, limit, step = (float(value.reshape(-1)[0]) for value in data if value is not None)
        return int(abs((limit - start) / step)) if step and math.isfinite((limit - start) / step) else 0
    return 0
