"""Models that bring their own encodings (QuantizeLinear and DequantizeLinear in pairs), to integers."""

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bound
from tosaic.compiler.importers.lowering.encoding_marker import marked
from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.quantizer import (
    Encoding,
    Finer,
    Plan,
    Quantized,
    canonical,
    keep_grids,
    moved_encoding,
    rewrite,
    soften_masks,
)
from tosaic.compiler.quantizer.canonical import MACS, channels_of
from tosaic.compiler.quantizer.plan import REORDERING
from tosaic.compiler.quantizer.weight_grids import WeightGrid, weight_grid, with_biases

from .probes import ProbedStatistics
from .quantization import evaluate_constant


def import_encoded(source: "str | pathlib.Path | Any", bound: Bound = None) -> Quantized | None:
    """The integers of an ONNX model whose float inputs and outputs are all encoded; None for any other model.

    Inputs and outputs are the integers inside the first and last pairs. UnsupportedError for an operator without an
    integer form.
    """
    from tosaic.compiler.importers.onnx_models import import_onnx_pairs

    graph = import_onnx_pairs(source, bound)
    return None if graph is None else encode(graph)


def encode(graph: Graph) -> Quantized | None:
    """The integers of a float graph with markers; None unless every float input and output is encoded."""
    work = canonical(graph, evaluate_constant)
    forced = _encodings(work)
    if forced is None:
        return None
    kinds = {encoding.dtype for encoding in forced.values()}
    activations = DType.INT16 if kinds == {DType.INT16} else DType.INT8
    soften_masks(work, ProbedStatistics(work, forced))
    statistics = ProbedStatistics(work, dict(forced))
    keep_grids(work, forced)
    finer = Finer(frozenset(_unencoded(work, forced)) if activations is DType.INT8 else frozenset())
    plan = Plan(work, statistics, activations, forced=forced, correct_bias=False, finer=finer)
    for op in work.operators:
        grid = _own_grid(plan, op) if op.op in MACS else None
        if grid is not None:
            plan.weight_grids[op.inputs[1]] = grid
    return rewrite(plan)


def _own_grid(plan: Plan, op: Operator) -> WeightGrid | None:
    """The grid of a convolution's weights; the first reader's biases are on it too."""
    weight, bias = (plan.graph.tensors[name].data for name in op.inputs[1:3])
    if weight is None:
        return None
    channels = channels_of(weight, op.op)
    grid = weight_grid(channels)
    if grid is None or bias is None or op.inputs[1] in plan.weight_grids:
        return plan.weight_grids.get(op.inputs[1], grid)
    steps = np.broadcast_to(bias.astype(np.float64), (len(channels),)) / plan.encoding(op.inputs[0]).scale
    return with_biases(grid, channels, steps)


def _encodings(graph: Graph) -> dict[str, Encoding] | None:
    """Encodings by tensor: what markers give, and the inputs that nothing but markers reads."""
    forced: dict[str, Encoding] = {}
    for op in graph.operators:
        found = marked(op)
        if found is not None:
            forced[op.outputs[0]] = Encoding(*found)
    for name in graph.inputs:
        if not graph.tensors[name].dtype.is_float:
            continue
        encodings = _read_as(graph, name, forced)
        only = encodings.pop() if len(encodings) == 1 else None
        if only is None:
            return None
        forced[name] = only
    for name in graph.outputs:
        if graph.tensors[name].dtype.is_float:
            encoding = moved_encoding(graph, name, forced)
            if encoding is None:
                return None
            forced[name] = encoding
    return forced


def _read_as(graph: Graph, name: str, forced: Mapping[str, Encoding]) -> set[Encoding | None]:
    """The encodings of the markers that read a tensor or its elements moved; None for every other reader."""
    found: set[Encoding | None] = {None} if name in graph.outputs else set()
    for op in graph.consumers(name):
        if op.op in REORDERING and op.inputs[0] == name:
            found |= _read_as(graph, op.outputs[0], forced)
        else:
            found.add(forced.get(op.outputs[0]) if marked(op) is not None else None)
    return found


def _unencoded(graph: Graph, forced: dict[str, Encoding]) -> set[str]:
    """What convolutions and products read without a pair in between: the model computes it in floats, we in 16 bits."""
    found: set[str] = set()
    for op in graph.operators:
        names = op.inputs[:1] if op.op in MACS else op.inputs[:2] if op.op == "MATMUL" else []
        # Both operands of a MATMUL have one type: an encoded one stays what it is.
        bare = [name for name in names if moved_encoding(graph, name, forced) is None]
        if len(bare) == len(names):
            found.update(bare)
    return found
