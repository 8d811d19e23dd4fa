"""The tensors of a model that brought its integers, as the model rounds them itself."""

from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bound
from tosaic.compiler.importers.lowering.encoding_marker import marked
from tosaic.compiler.ir import Graph
from tosaic.compiler.quantizer import Encoding, Quantized
from tosaic.driver.quantize.encoded_models import encode
from tosaic.sim.golden import evaluate_operator

from .float_models import FloatModel


def quantized_pairs(source: Any, bound: Bound = None) -> tuple[FloatModel, Quantized, dict[str, str]] | None:
    """What gives all tensors of an ONNX model with pairs, in floats that go through each pair; its integers; and the
    model's operators by tensor. None for any other model."""
    from tosaic.compiler.importers.onnx_models import import_onnx_pairs

    graph = import_onnx_pairs(source, bound)
    found = None if graph is None else encode(graph)
    if graph is None or found is None:
        return None
    own = graph
    shown = {name: op.source for op in own.operators if op.source for name in op.outputs}
    return lambda sample: _tensors(own, sample), found, shown


def _tensors(graph: Graph, sample: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    constants = {name: each.data for name, each in graph.tensors.items() if each.data is not None}
    values = dict(constants)
    for name in graph.inputs:
        tensor = graph.tensors[name]
        values[name] = sample[name].astype(tensor.dtype.numpy).reshape(tensor.shape)
    for op in graph.operators:
        marker = marked(op)
        if marker is not None:
            values[op.outputs[0]] = _through(Encoding(*marker), values[op.inputs[0]]).astype(
                graph.tensors[op.outputs[0]].dtype.numpy
            )
            continue
        dtypes = [graph.tensors[name].dtype for name in op.outputs]
        operands = [values[name] for name in op.inputs]
        results = evaluate_operator(op.op, operands, op.attributes, dtypes, label=str(op))
        values.update(zip(op.outputs, results, strict=True))
    return {name: value for name, value in values.items() if name not in constants}


def _through(encoding: Encoding, values: np.ndarray) -> np.ndarray:
    """What a marker makes: the integers of reals, or the reals of integers."""
    return encoding.quantize(values) if values.dtype.kind == "f" else encoding.dequantize(values)
