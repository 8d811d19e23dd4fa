"""Integers at the borders: a float input that only QUANTIZE reads, and a float output that DEQUANTIZE makes.

The tensor itself becomes integers of that encoding; the operator then has nothing to do. So the whole model runs in
integers, and who calls it is told the encodings.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tosaic.compiler.importers.tflite.source_graph import (
    TensorQuantization,
    TfliteModel,
    TfliteSubgraph,
    TfliteTensor,
)
from tosaic.compiler.importers.tflite.values import OFFSET, STORAGE
from tosaic.compiler.ir import DType

Encodings = dict[str, tuple[DType, float, int, bool]]
"""Type, scale and zero point of inputs and outputs, by name."""

_KINDS = {"INT8": "INT8", "UINT8": "INT8", "INT16": "INT16"}
"""What stands at the border for integers inside."""


def with_integer_borders(model: TfliteModel) -> TfliteModel:
    """The model whose float inputs and outputs are integers, where they are on the inner side of the border."""
    main = model.subgraphs[0]
    tensors = list(main.tensors)
    for index in main.inputs:
        readers = [o for o in main.operators if index in o.inputs]
        if readers and index not in main.outputs and all(o.kind == "QUANTIZE" and o.outputs for o in readers):
            _encode(tensors, index, [main.tensors[o.outputs[0]] for o in readers])
    for index in main.outputs:
        makers = [o for o in main.operators if index in o.outputs and o.inputs and o.kind == "DEQUANTIZE"]
        if makers and not any(index in o.inputs for o in main.operators):
            _encode(tensors, index, [main.tensors[o.inputs[0]] for o in makers])
    return replace(model, subgraphs=[replace(main, tensors=tensors), *model.subgraphs[1:]])


def _encode(tensors: list[TfliteTensor], index: int, inner: Sequence[TfliteTensor]) -> None:
    """Gives a float tensor the encoding of the integers inside, if they have one and the same."""
    found = {_held(tensor) for tensor in inner}
    only = found.pop() if len(found) == 1 else None
    if tensors[index].kind == "FLOAT32" and only is not None:
        kind, scale, zero_point = only
        quantization = TensorQuantization(np.array([scale], np.float32), np.array([zero_point]))
        tensors[index] = replace(tensors[index], kind=kind, quantization=quantization)


def _held(tensor: TfliteTensor) -> tuple[str, float, int] | None:
    """Kind at the border, scale and zero point of a tensor that is quantized as a whole."""
    quantization = tensor.quantization
    if tensor.kind not in _KINDS or quantization is None or quantization.scales.size != 1:
        return None
    zero_point = quantization.zero_point - OFFSET.get(tensor.kind, 0)
    return _KINDS[tensor.kind], float(quantization.scale), zero_point


def encodings_of(graph: TfliteSubgraph) -> Encodings:
    """What the integers of inputs and outputs stand for: type, scale, zero point, and whether they have no sign."""
    found: Encodings = {}
    for index in (*graph.inputs, *graph.outputs):
        tensor = graph.tensors[index]
        held = _held(tensor)
        if held is not None:
            offset = OFFSET.get(tensor.kind, 0)
            found[tensor.name] = (STORAGE[held[0]], held[1], held[2] + offset, offset > 0)
    return found
