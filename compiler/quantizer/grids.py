"""Grids that a float model brings itself: pseudo-quantization, such as NNEF's `graph.quant`, becomes an encoding.

A chain CLAMP, SUB, MUL, rounding, MUL, ADD puts reals on 2^bits equal steps from min to max. In integers that is what
an encoding does, so the chain shrinks to its CLAMP, and the encoding is the model's own.
"""

from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.ir.building import remove_dead
from tosaic.compiler.quantizer.encoding import Encoding
from tosaic.compiler.quantizer.plan import Forced


@dataclass(frozen=True)
class StepGrid:
    """`steps` equal steps from low to high."""

    low: float
    high: float
    steps: int

    def encoding(self) -> Encoding | None:
        """The int8 encoding with these steps; the whole grid moves by less than half a step, so that 0 is on it.

        None for finer grids, and for those that 0 lies outside of.
        """
        if self.steps > 255 or not self.low <= 0 <= self.high or self.low == self.high:
            return None
        scale = (self.high - self.low) / self.steps
        return Encoding(DType.INT8, scale, max(-128, min(127, round(-128 - self.low / scale))))


def take_grids(graph: Graph) -> Forced:
    """Shortens every chain in `graph` to a CLAMP, and tells the encodings of their results, by tensor."""
    search = _ChainReader(graph)
    found: Forced = {}
    for op in graph.operators:
        grid = search.grid(op)
        if grid is None:
            continue
        source, whole = grid
        op.op, op.inputs = "CLAMP", [source]
        op.attributes = {"min_val": whole.low, "max_val": whole.high}
        encoding = whole.encoding()
        if encoding is not None:
            found[op.outputs[0]] = encoding
            if source in graph.inputs and len(graph.consumers(source)) == 2:
                # Read by the CLAMP of old, which goes away, and by the new one: the grid is that of the input.
                found[source] = encoding
    remove_dead(graph)
    return found


class _ChainReader:
    """Reads chains from their last operator back to their first, as `lowering.grids.linear_grid` writes them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = {name: op for op in graph.operators for name in op.outputs}

    def grid(self, last: Operator) -> tuple[str, StepGrid] | None:
        """The tensor that a chain ending in `last` puts on a grid, and the grid."""
        if last.op != "ADD":
            return None
        whole = self._producer(last.inputs[0], "MUL")
        chosen = self._producer(whole.inputs[0], "SELECT") if whole else None
        floor = self._producer(chosen.inputs[2], "FLOOR") if chosen else None
        scaled = self._producer(floor.inputs[0], "MUL") if floor else None
        shifted = self._producer(scaled.inputs[0], "SUB") if scaled else None
        clamp = self._producer(shifted.inputs[0], "CLAMP") if shifted else None
        if not (whole and chosen and floor and scaled and shifted and clamp):
            return None
        low, high = float(clamp.attributes["min_val"]), float(clamp.attributes["max_val"])
        factor, step = self._number(scaled.inputs[1]), self._number(whole.inputs[1])
        ends = {self._number(last.inputs[1]), self._number(shifted.inputs[1])}
        if factor is None or step is None or ends != {low} or not low < high:
            return None
        steps = round(factor * (high - low))
        if steps < 1 or not np.allclose([factor * step, step * steps], [1.0, high - low], rtol=1e-5):
            return None
        return clamp.inputs[0], StepGrid(low, high, steps)

    def _producer(self, tensor: str, name: str) -> Operator | None:
        op = self.producers.get(tensor)
        return op if op is not None and op.op == name else None

    def _number(self, tensor: str) -> float | None:
        data = self.graph.tensors[tensor].data
        return float(data.reshape(-1)[0]) if data is not None and data.size == 1 else None
