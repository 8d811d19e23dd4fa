"""What is decided before anything is emitted: who shares an encoding, which tensors are held as activations."""

import math
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Trait, data_inputs, operators_with
from tosaic.compiler.quantizer.calibration import HUGE, Statistics
from tosaic.compiler.quantizer.canonical import MACS, PRODUCTS
from tosaic.compiler.quantizer.encoding import Encoding, asymmetric, symmetric
from tosaic.compiler.quantizer.feedback import Covariances
from tosaic.compiler.quantizer.functions import RENAMES, UnaryFunctions, is_real
from tosaic.compiler.quantizer.weight_grids import WeightGrid
from tosaic.compiler.quantizer.whole_numbers import whole_numbers

REORDERING = operators_with(Trait.PICKS) - operators_with(Trait.REDUCES) - {"SLICE"} | {"PAD"}
"""Their result has the elements of their first input: both share one encoding."""
MOVES = REORDERING | operators_with(Trait.MOVES) | operators_with(Trait.INDEXED)
"""Operators that only pick elements, whatever the encoding."""
_LAYER_MATES = operators_with(Trait.ELEMENTWISE) | RENAMES
"""Operators that join the layer of what they read."""
_WIDENED = 1.5
"""Parts of a CONCAT share its encoding, SLICEs that of their source, where no range becomes half as wide again."""
_MARGIN = 1.25
"""int16 tensors between layers hold this much more than was seen."""
WIDE_MARGIN = 2.0
"""Activations of int16 hold this much more: a bit of 16 costs less than what unseen samples saturate."""
_OUTPUT_ROOM = 1.1
"""A model's outputs hold this much more than was seen: on digits, logits of unseen images gain 0 to 4 dB."""

_CANCELLED = 2.0
"""A difference this much smaller than its operands shows their rounding."""
_LINEAR = operators_with(Trait.LINEAR) | MOVES
"""Operators whose results are as coarse as their operands."""

Forced = dict[str, Encoding]


@dataclass(frozen=True)
class Finer:
    """What is held in 16 bits where the rest has 8, by names of tensors of the canonical graph."""

    operands: frozenset[str] = frozenset()
    """Activations: what convolutions and MATMULs read, and what leaves the model."""
    weights: frozenset[str] = frozenset()
    """Results of convolutions, whose weights have two bytes."""

    def __or__(self, other: "Finer") -> "Finer":
        return Finer(self.operands | other.operands, self.weights | other.weights)


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
        finer: Finer | None = None,
    ) -> None:
        self.graph, self.statistics, self.activations, self.method = graph, statistics, activations, method
        self.forced, self.correct_bias = dict(forced or {}), correct_bias
        for name, tensor in graph.tensors.items():
            if tensor.data is not None and tensor.dtype.is_float and tensor.data.size:
                statistics.low[name], statistics.high[name] = (
                    float(tensor.data.min()),
                    float(tensor.data.max()),
                )
        self._saturate_inputs()
        self.whole = whole_numbers(graph, statistics)
        """Tensors of whole numbers, which are computed exactly, and their spans."""
        self.functions = UnaryFunctions(graph, self.whole)
        self.producers = {name: op for op in graph.operators for name in op.outputs}
        self.weight_grids: dict[str, WeightGrid] = {}
        """The model's own integers of constant weights."""
        self.group: int | None = None
        """Input channels that share a scale where matrices are rounded to four bits; None: they have eight."""
        self.covariances = Covariances()
        """Covariances of what convolutions read whose weights are rounded with error feedback."""
        self.bent = frozenset[str]()
        """Inputs whose integers stand for the bent numbers of a curve."""
        self.as_onnx = False
        """Whether functions of int8 round as ONNX does: in float32, ties to even."""
        self._parents: dict[str, str] = {}
        for op in graph.operators:
            if op.op in REORDERING and is_real(graph, op.inputs[0]):
                self._join(op.inputs[0], op.outputs[0])
        self.readers = self._find_readers()
        if not self.forced:
            self._join_parts()
        self._members: dict[str, list[str]] = {}
        for name in graph.tensors:
            if is_real(graph, name):
                self._members.setdefault(self._group(name), []).append(name)
        self._held = {self._group(name) for name in self._read_by_macs()}
        self._held |= {self._group(name) for name in graph.inputs if is_real(graph, name)}
        self._held |= {self._group(name) for name in self.forced}
        self.precise = set[str]() if self.forced else self._find_precise()
        """Tensors that differences of likes are made of: these read what computes them, not what is in memory."""
        self._waiting = self._find_waiting() - self.precise
        self._encodings: dict[tuple[str, DType], Encoding] = {}
        self.finer = finer or Finer()
        self._fine = {self._group(name) for name in self.finer.operands}
        self._even_out_products()

    def narrows(self, tensor: str) -> bool:
        """Whether int16 does for a tensor between layers, which goes through memory since several operators read it,
        or since what it is added to is not there yet.

        Sums over the last axis stay in int32, as does what a reciprocal or a root reads: they need ratios, not steps.
        So do scores with masks that a model's own encodings frame: steps of their range would be coarse for a softmax;
        and so does what undoes the curve of an input.
        """
        readers = self.readers.get(tensor, set())
        if (
            self.activations is not DType.INT8
            or not (len(readers) > 1 or tensor in self._waiting)
            or self.graph.tensors[tensor].shape[-1:] == (1,)
        ):
            return False
        if self.is_bent(self.functions.root(tensor)):
            return False
        if self.as_onnx and any(self.producers[name].op == "REDUCE_MAX" for name in readers):
            return False
        low, high = self.statistics.range_seen(tensor)
        factor = low > 0 and any(self.functions.root(name) == tensor for name in readers)
        return high > low and not factor

    def is_bent(self, tensor: str) -> bool:
        """Whether a tensor is an input with a curve, or moved from one."""
        op = self.producers.get(tensor)
        while op is not None and op.op in MOVES:
            tensor = op.inputs[0]
            op = self.producers.get(tensor)
        return tensor in self.bent

    def held(self, tensor: str) -> bool:
        """Whether a tensor is in memory as an activation anyway, since a convolution or MATMUL reads it."""
        return self._group(tensor) in self._held

    def encoding(self, tensor: str, dtype: DType | None = None) -> Encoding:
        """The encoding of a tensor as an activation, or as int16 between layers."""
        dtype = dtype or self._own_type(tensor)
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
        room = max(self.statistics.room.get(name, 1.0) for name in members)
        largest = room * max(self.statistics.largest(name) for name in members)
        if set(members) & set(self.graph.inputs):
            return symmetric(dtype, largest)
        wide = self._own_type(members[0]) is DType.INT16
        return symmetric(dtype, largest * (WIDE_MARGIN if wide else _MARGIN))

    def largest(self, tensor: str) -> float:
        """Returns the largest magnitude that calibration saw."""
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

    def _own_type(self, tensor: str) -> DType:
        return DType.INT16 if self._group(tensor) in self._fine else self.activations

    def _saturate_inputs(self) -> None:
        """Cuts the range of an input of masks to the bounds of the CLAMPs that alone read it."""
        seen, index = self.statistics, self.graph.index()
        for name in self.graph.inputs:
            readers = index.consumers(name)
            if not readers or any(op.op != "CLAMP" for op in readers) or name not in seen.low:
                continue
            if name in seen.infinite or seen.largest(name) > HUGE:
                least = -math.inf if name in seen.infinite else seen.low[name]
                seen.low[name] = max(least, min(float(op.attributes["min_val"]) for op in readers))
                most = max(float(op.attributes["max_val"]) for op in readers)
                seen.high[name] = min(seen.high[name], most)

    def _even_out_products(self) -> None:
        """Both operands of a MATMUL have one type."""
        pairs = [
            tuple(self._group(name) for name in op.inputs[:2])
            for op in self.graph.operators
            if op.op == "MATMUL"
        ]
        while more := {name for pair in pairs if self._fine & set(pair) for name in pair} - self._fine:
            self._fine |= more

    def _find_precise(self) -> set[str]:
        """The operands of differences that are small beside them, and what these are made of."""
        largest, found = self.statistics.largest, set[str]()
        pending = [
            name
            for op in self.graph.operators
            if op.op in ("ADD", "SUB") and is_real(self.graph, op.outputs[0])
            if min(map(largest, op.inputs)) > _CANCELLED * largest(op.outputs[0]) > 0
            for name in op.inputs
        ]
        while pending:
            name = pending.pop()
            op = self.producers.get(name)
            if op is None or name in found or not is_real(self.graph, name):
                continue
            found.add(name)
            if self.functions.is_table(name):
                pending.append(self.functions.root(name))
            elif op.op in _LINEAR:
                pending += data_inputs(op)
        return found

    def _find_waiting(self) -> set[str]:
        """Returns the operand that is made in a layer of its own, of two that end two convolutions or MATMULs, or two
        SLICEs of one: it goes through memory until the other one is there. The one with more products is computed with
        what reads both, as the compiler does it; of equal ones the first."""
        made: dict[str, tuple[int, int]] = {}
        """What a tensor's layer begins with, by its place among the operators, and how many products that takes; 0
        where several are added up."""
        found = set[str]()
        for place, op in enumerate(self.graph.operators):
            source, result = op.inputs[0] if op.inputs else "", op.outputs[0]
            if op.op in PRODUCTS:
                made[result] = place, math.prod(self.graph.tensors[op.inputs[1]].shape[:-1])
            elif op.op == "SLICE" and (whole := self._renamed(source)) in made:
                # Halves are made by halves of the product; steps of a sequence are all there before.
                made[result] = place, made[whole][1] if len(self.readers[whole]) < 3 else 0
            elif op.op in _LAYER_MATES:
                own = [
                    name
                    for name in data_inputs(op)
                    if name in made and not self.held(name) and len(self.readers.get(name, ())) < 2
                ]
                if len({made[name][0] for name in own}) > 1:
                    found.add(self._renamed(min(reversed(own), key=lambda name: made[name][1])))
                    made[result] = place, 0
                elif own:
                    made[result] = made[own[0]]
        return found

    def _renamed(self, tensor: str) -> str:
        """What RESHAPEs make a tensor of."""
        while (op := self.producers.get(tensor)) is not None and op.op in RENAMES:
            tensor = op.inputs[0]
        return tensor

    def _find_readers(self) -> dict[str, set[str]]:
        """The results that are computed from each tensor: a function's only at its end, and behind RESHAPEs."""
        found: dict[str, set[str]] = {}
        needed = set(self.graph.outputs)
        for op in reversed(self.graph.operators):
            for name in op.outputs:
                if name not in needed:
                    continue
                table = self.functions.is_table(name)
                sources = [self.functions.root(name)] if table else data_inputs(op)
                needed.update(sources)
                same = op.op in RENAMES
                for source in sources:
                    found.setdefault(source, set()).update(found.get(name, ()) if same else {name})
        return found

    def _join_parts(self) -> None:
        """Lets CONCATs and SLICEs move integers as they are, where that costs little precision."""
        graph = self.graph
        moved = {name for op in graph.operators if op.op in MOVES for name in op.inputs}
        used = {name for op in graph.operators if op.op not in MOVES for name in data_inputs(op)}
        used.update(graph.outputs, graph.inputs)
        ranges: dict[str, tuple[float, float]] = {}
        finest: dict[str, float] = {}
        for name in moved.union(*(op.outputs for op in graph.operators if op.op in MOVES)):
            group, (low, high) = self._group(name), self.statistics.range(name)
            known = ranges.get(group, (0.0, 0.0))
            ranges[group] = (min(low, known[0]), max(high, known[1]))
            if name in used:
                finest[group] = min(high - low, finest.get(group, math.inf))
        for op in graph.operators:
            parts = op.inputs if op.op == "CONCAT" else op.inputs[:1] if op.op == "SLICE" else []
            for part in parts:
                a, b = self._group(part), self._group(op.outputs[0])
                if a == b or not is_real(graph, part):
                    continue
                union = min(ranges[a][0], ranges[b][0]), max(ranges[a][1], ranges[b][1])
                least = min(finest.get(a, math.inf), finest.get(b, math.inf))
                if union[1] - union[0] <= _WIDENED * least:
                    self._join(a, b)
                    ranges[a], finest[a] = union, least

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
