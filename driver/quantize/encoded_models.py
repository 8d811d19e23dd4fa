"""Models that bring their own encodings (QuantizeLinear and DequantizeLinear in pairs), to integers."""

import pathlib
import warnings
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
from tosaic.compiler.quantizer.functions import is_real
from tosaic.compiler.quantizer.groups import has_groups
from tosaic.compiler.quantizer.plan import REORDERING
from tosaic.compiler.quantizer.weight_grids import WeightGrid, weight_grid, wide_grid, with_biases
from tosaic.errors import ModelWarning, UnsupportedError

from .integer_probes import IntegerProbes
from .probes import ProbedStatistics
from .quantization import evaluate_constant

_SAMPLE = 1024
_POINTS, _COARSER = (1 << 15) + 1, 32
"""Points at which jumps are looked for, and how many times fewer see the slopes."""
_JUMP_STEPS = 2
_LARGE = 100.0
"""No smaller number is taken for minus infinity."""


class FloatPortError(UnsupportedError):
    """A model brings encodings, and a float input or output of it has none."""

    def __init__(self, side: str, name: str) -> None:
        verb = "reads" if side == "input" else "makes"
        self.reason = f"{side} {name!r} holds floats, and no QuantizeLinear {verb} it"
        super().__init__(
            f"{self.reason}: quantize the {side} as the rest of the model, or give the model to tosaic quantize"
        )


def import_encoded(source: "str | pathlib.Path | Any", bound: Bound = None) -> Quantized | None:
    """The integers of an ONNX model that brings its encodings; None for one that has none.

    Float inputs and outputs are the integers inside the first and last pairs. FloatPortError where these are missing,
    UnsupportedError for an operator without an integer form.
    """
    from tosaic.compiler.importers.onnx_models import import_onnx_pairs

    graph = import_onnx_pairs(source, bound)
    return None if graph is None else encode(graph)


def encode(graph: Graph) -> Quantized:
    """The integers of a float graph with markers."""
    work = canonical(graph, evaluate_constant)
    forced = _encodings(work)
    kinds = {encoding.dtype for encoding in forced.values()}
    activations = DType.INT16 if kinds == {DType.INT16} else DType.INT8
    _constant_grids(work, forced)
    integers = IntegerProbes(work)
    _soften(work, forced, integers)
    statistics = ProbedStatistics(work, dict(forced), integers)
    keep_grids(work, forced)
    products = [op for op in work.operators if op.op in MACS and is_real(work, op.inputs[0])]
    grids = _own_grids(work, products)
    finer = Finer(
        frozenset(_unencoded(work, forced)) if activations is DType.INT8 else frozenset(),
        frozenset(op.outputs[0] for op in products if grids.get(op.inputs[1], True) is None),
    )
    plan = Plan(work, statistics, activations, forced=forced, correct_bias=False, finer=finer)
    plan.as_onnx = True
    for op in products:
        grid = grids.get(op.inputs[1])
        if grid is not None and op.inputs[1] not in plan.weight_grids:
            plan.weight_grids[op.inputs[1]] = _with_biases(plan, op, grid)
    result = rewrite(plan)
    integers.warn()
    _warn_of_jumps(plan)
    return result


def _warn_of_jumps(plan: Plan) -> None:
    """A ModelWarning for each function that jumps, and is rounded to an encoding without being a table of all bytes."""
    for op in plan.graph.operators:
        name = op.inputs[0] if op.inputs else ""
        encoding, root = plan.forced.get(op.outputs[0]), plan.functions.root(name)
        if op.op != "CUSTOM" or encoding is None or not plan.functions.is_table(name):
            continue
        source = moved_encoding(plan.graph, root, plan.forced)
        if source is not None and source.dtype is encoding.dtype is DType.INT8:
            continue
        points = np.linspace(*plan.statistics.range_seen(root), _POINTS)
        rises = np.abs(np.diff(plan.functions(name, points)))
        steep = np.abs(np.diff(plan.functions(name, points[::_COARSER]))).max()
        if rises.max() > max(_JUMP_STEPS * encoding.scale, steep / 4):
            made = plan.producers[name]
            warnings.warn(
                f"{made.source or made.name} (tensor {name!r}) jumps, and a table of 16 bits makes slopes of jumps: "
                "near them results differ from the model's; quantize its input and output to 8 bits",
                ModelWarning,
                stacklevel=3,
            )


def _soften(graph: Graph, forced: dict[str, Encoding], integers: IntegerProbes) -> None:
    """Softens masks as for a float model. They begin with a large constant: without one nothing is probed.

    Integers between markers count as the reals that they stand for meanwhile.
    """
    constants = [tensor.data for name, tensor in graph.tensors.items() if is_real(graph, name)]
    if not any(data is not None and data.size and np.abs(data).max() > _LARGE for data in constants):
        return
    statistics, kinds = ProbedStatistics(graph, forced, integers).seen_whole(), dict[str, DType]()
    for op in graph.operators:
        made = marked(op) is not None and is_real(graph, op.inputs[0])
        if made or (marked(op) is None and not kinds.keys().isdisjoint(op.inputs)):
            kinds.update({name: graph.tensors[name].dtype for name in op.outputs})
    for name in kinds:
        graph.tensors[name].dtype = DType.FP32
    soften_masks(graph, statistics)
    for name, dtype in kinds.items():
        graph.tensors[name].dtype = dtype


def _own_grids(graph: Graph, products: list[Operator]) -> dict[str, WeightGrid | None]:
    """The grids of constant weights, by tensor; None where they are on no grid of integers. Those in groups of four
    bits are not among them."""
    grids: dict[str, WeightGrid | None] = {}
    for op in products:
        weight = graph.tensors[op.inputs[1]].data
        if weight is not None and op.inputs[1] not in grids:
            channels = channels_of(weight, op.op)
            own = weight_grid(channels)
            if own is not None or not has_groups(graph, op):
                grids[op.inputs[1]] = own or wide_grid(channels)
    return grids


def _with_biases(plan: Plan, op: Operator, grid: WeightGrid) -> WeightGrid:
    """The grid of a convolution's weights on which its biases are, too."""
    weight, bias = (plan.graph.tensors[name].data for name in op.inputs[1:3])
    if weight is None or bias is None or grid.wide:
        return grid
    channels = channels_of(weight, op.op)
    steps = np.broadcast_to(bias.astype(np.float64), (len(channels),)) / plan.encoding(op.inputs[0]).scale
    return with_biases(grid, channels, steps)


def _constant_grids(graph: Graph, forced: dict[str, Encoding]) -> None:
    """Adds to `forced` the own integers of constants that are activations: tables, and operands of products."""
    for op in graph.operators:
        for name in op.inputs[: {"GATHER": 1, "MATMUL": 2}.get(op.op, 0)]:
            data = graph.tensors[name].data
            if data is None or not is_real(graph, name) or name in forced:
                continue
            line = data.reshape(1, -1)
            # A large table of floats is told by its first elements.
            grid = weight_grid(line) if weight_grid(line[:, :_SAMPLE]) is not None else None
            if grid is not None:
                forced[name] = Encoding(DType.INT8, float(grid.scales[0]), grid.zero_point)


def _encodings(graph: Graph) -> dict[str, Encoding]:
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
            raise FloatPortError("input", name)
        forced[name] = only
    for name in graph.outputs:
        if graph.tensors[name].dtype.is_float:
            encoding = moved_encoding(graph, name, forced)
            if encoding is None:
                raise FloatPortError("output", name)
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
        names = [name for name in names if is_real(graph, name)]
        # Both operands of a MATMUL have one type: an encoded one stays what it is.
        bare = [name for name in names if moved_encoding(graph, name, forced) is None]
        if len(bare) == len(names):
            found.update(bare)
    return found
