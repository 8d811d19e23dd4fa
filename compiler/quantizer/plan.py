"""What is decided before anything is emitted: who shares an encoding, which tensors are held as activations."""

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator
from tosaic.compiler.quantizer.calibration import Statistics
from tosaic.compiler.quantizer.canonical import MACS
from tosaic.compiler.quantizer.encoding import Encoding, asymmetric, symmetric
from tosaic.compiler.quantizer.functions import UnaryFunctions, is_real
from tosaic.compiler.quantizer.weight_grids import WeightGrid

REORDERING = ("RESHAPE", "TRANSPOSE", "REVERSE", "TILE", "PAD", "IDENTITY", "MAX_POOL2D", "GATHER")
"""Their result has the elements of their first input: both share one encoding."""
MOVES = (*REORDERING, "SLICE", "CONCAT", "SCATTER")
"""Operators that only pick elements, whatever the encoding."""
_MARGIN = 1.25
"""int16 tensors between layers hold this much more than was seen."""
_OUTPUT_ROOM = 1.1
"""A model's outputs hold this much more than was seen: on digits, logits of unseen images gain 0 to 4 dB."""

Forced = dict[str, Encoding]


class Plan:
    """Encodings of a canonical float graph's tensors for activations of type `activations`.

    `forced` gives encodings that the model itself brings (quantized ONNX models); they overrule calibration.
    """

    def __init__(
        self,
        graph: Graph,
        statistics: Statistics,
        activations: DType = DType.INT8,
        method: str = "minmax",
        forced: Forced | None = None,
        correct_bias: bool = True,
    ) -> None:
        self.graph, self.statistics, self.activations, self.method = graph, statistics, activations, method
        self.forced, self.correct_bias = forced or {}, correct_bias
        for name, tensor in graph.tensors.items():
            if tensor.data is not None and tensor.dtype.is_float and tensor.data.size:
                statistics.low[name], statistics.high[name] = (
                    float(tensor.data.min()),
                    float(tensor.data.max()),
                )
        self.functions = UnaryFunctions(graph)
        self.producers = {name: op for op in graph.operators for name in op.outputs}
        self.weight_grids: dict[str, WeightGrid] = {}
        """The model's own integers of constant weights."""
        self._parents: dict[str, str] = {}
        for op in graph.operators:
            if op.op in REORDERING and is_real(graph, op.inputs[0]):
                self._join(op.inputs[0], op.outputs[0])
        self._members: dict[str, list[str]] = {}
        for name in graph.tensors:
            if is_real(graph, name):
                self._members.setdefault(self._group(name), []).append(name)
        self._held = {self._group(name) for name in self._read_by_macs()}
        self._held |= {self._group(name) for name in graph.inputs if is_real(graph, name)}
        self._held |= {self._group(name) for name in self.forced}
        self._encodings: dict[tuple[str, DType], Encoding] = {}

    def held(self, tensor: str) -> bool:
        """Whether a tensor is in memory as an activation anyway, since a convolution or MATMUL reads it."""
        return self._group(tensor) in self._held

    def encoding(self, tensor: str, dtype: DType | None = None) -> Encoding:
        """The encoding of a tensor as an activation, or as int16 between layers."""
        dtype = dtype or self.activations
        own = self.forced.get(tensor)
        if own is not None and own.dtype is dtype:
            return own
        key = (self._group(tensor), dtype)
        if key not in self._encodings:
            members = self._members[key[0]]
            chosen = [
                self.forced[name]
                for name in members
                if name in self.forced and self.forced[name].dtype is dtype
            ]
            self._encodings[key] = chosen[0] if chosen else self._chosen(members, dtype)
        return self._encodings[key]

    def _chosen(self, members: list[str], dtype: DType) -> Encoding:
        # What leaves the graph is not cut, and has some room: nothing behind it makes up for saturation.
        leaves = bool(set(members) & set(self.graph.outputs)) and not set(members) & set(self.graph.inputs)
        room = _OUTPUT_ROOM if leaves else 1.0
        if dtype is DType.INT8:
            method = "minmax" if leaves else self.method
            ranges = [self.statistics.range(name, method) for name in members]
            return asymmetric(
                dtype, room * min(low for low, _ in ranges), room * max(high for _, high in ranges)
            )
        largest = max(self.statistics.largest(name) for name in members)
        return symmetric(dtype, largest * (_MARGIN if dtype is not self.activations else room))

    def largest(self, tensor: str) -> float:
        """Largest magnitude that calibration saw."""
        return self.statistics.largest(tensor)

    def corrections(self, mac: Operator, errors: np.ndarray) -> np.ndarray:
        """What the rounding of weights [output channel, taps] shifts the results' mean by, to subtract from it."""
        rank = len(self.graph.tensors[mac.inputs[0]].shape)
        seen = self.statistics.channels.get((mac.inputs[0], (rank - 1,)))
        if seen is None or not self.correct_bias or mac.op == "TRANSPOSE_CONV2D":
            return np.zeros(len(errors))
        if mac.op == "DEPTHWISE_CONV2D":
            means = np.repeat(seen.mean, len(errors) // len(seen.mean))
            return -errors.sum(1) * means
        taps = errors.shape[1] // len(seen.mean)
        return -errors @ np.tile(seen.mean, taps)

    def _read_by_macs(self) -> list[str]:
        found = []
        for op in self.graph.operators:
            names = op.inputs[:2] if op.op == "MATMUL" else op.inputs[:1] if op.op in MACS else []
            found += [name for name in names if is_real(self.graph, name)]
        return found

    def _group(self, name: str) -> str:
        while name in self._parents:
            name = self._parents[name]
        return name

    def _join(self, a: str, b: str) -> None:
        a, b = self._group(a), self._group(b)
        if a != b:
            self._parents[b] = a
