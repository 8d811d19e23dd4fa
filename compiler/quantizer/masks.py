"""Constants that stand for minus infinity before a softmax: as large as they need to be, and no larger."""

import numpy as np

from tosaic.compiler.ir import Graph, GraphIndex
from tosaic.compiler.ir.building import add_constant
from tosaic.compiler.quantizer.calibration import Statistics
from tosaic.compiler.quantizer.functions import is_real

_HUGE = -500.0
_DEPTH = 24.0
"""exp(-24) is 2^-34 of the largest term."""


def soften_masks(graph: Graph, statistics: Statistics) -> bool:
    """Raises constants far below zero that are added or selected on the way to a softmax; False if there are none.

    A masked score becomes as small as softmax can tell from minus infinity; anything smaller would take the int32
    resolution from the scores that count.
    """
    changed, readers = False, graph.index()
    for op in graph.operators:
        if op.op not in ("ADD", "SELECT") or not _reaches_softmax(readers, op.outputs[0]):
            continue
        names = op.inputs[-2:]
        for index, name in enumerate(names):
            data, other = graph.tensors[name].data, names[1 - index]
            if data is None or not is_real(graph, name) or not np.any(data < _HUGE):
                continue
            low, high = _scores(graph, statistics, other)
            floor = -(high - low) - _DEPTH if op.op == "ADD" else low - _DEPTH
            softer = np.maximum(data, floor)
            if np.any(softer != data):
                op.inputs[len(op.inputs) - 2 + index] = add_constant(
                    graph, f"{name}/mask", softer, graph.tensors[name].dtype
                )
                changed = True
    return changed


def _scores(graph: Graph, statistics: Statistics, name: str) -> tuple[float, float]:
    data = graph.tensors[name].data
    if data is not None:
        kept = data[data > _HUGE]
        return (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)
    low, high = statistics.range_seen(name)
    return max(low, -1e4), min(high, 1e4)


def _reaches_softmax(index: GraphIndex, tensor: str) -> bool:
    """Whether a tensor, past other masks and moves, is what a softmax subtracts its maximum from."""
    seen, pending = set(), [tensor]
    while pending:
        name = pending.pop()
        readers = index.consumers(name)
        if any(op.op == "REDUCE_MAX" for op in readers) and any(op.op == "SUB" for op in readers):
            return True
        for op in readers:
            if op.op in ("ADD", "SELECT", "RESHAPE", "TRANSPOSE", "IDENTITY", "MUL", "CAST", "TILE"):
                if op.outputs[0] not in seen:
                    seen.add(op.outputs[0])
                    pending.append(op.outputs[0])
    return False
