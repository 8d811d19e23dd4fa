"""Nodes whose inputs are all known are computed now, by the reference operators of the package onnx."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.onnx_models.package import load_onnx_package
from tosaic.compiler.importers.onnx_models.values import Value

_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
_NEVER = (*_RANDOM, "If", "Loop", "Scan", "Dropout")


def foldable(op: str, inputs: Sequence[Value | None]) -> bool:
    """Whether a node can be computed now."""
    return op not in _NEVER and all(value is None or value.data is not None for value in inputs)


def fold(node: Any, inputs: Sequence[Value | None], opset: int) -> list[np.ndarray] | None:
    """The node's results; None when the reference operators do not compute it."""
    onnx = load_onnx_package()
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
