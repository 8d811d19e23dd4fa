"""Streams that only norms read: their rows are made to have no mean, so that no norm has to take it out.

A layer norm begins with the mean of its row, a sum over all channels and a difference. What blocks add to such a stream
may have its mean taken out as well: of a convolution in its weights, of a constant at once. What else there is (a
curve's results, an input) loses it by one sum and one difference of its own, and all norms of the stream are spared
theirs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor
from tosaic.compiler.ir.building import add_constant, fresh_name
from tosaic.compiler.quantizer.groups import has_groups

_EXACT = 1e-5
"""How near to 1 / channels a factor of a mean is."""


def take_means_out(graph: Graph) -> None:
    """Changes a canonical float graph in place, where fewer means are left."""
    done: set[str] = set()
    for norm in list(_norms(graph)):
        if norm.outputs[0] in done:
            continue
        stream = _MeanStream(graph, norm.inputs[0])
        done.update(each.outputs[0] for each in stream.norms)
        if stream.whole and len(stream.norms) > len(stream.others):
            _centre(graph, stream)


def _norms(graph: Graph) -> Iterator[Operator]:
    """The differences of a tensor and the means of its rows."""
    index = graph.index()
    for op in graph.operators:
        scaled = index.producer(op.inputs[1]) if op.op == "SUB" else None
        total = index.producer(scaled.inputs[0]) if scaled is not None and scaled.op == "MUL" else None
        if scaled is None or total is None or total.op != "REDUCE_SUM" or total.inputs[0] != op.inputs[0]:
            continue
        shape, factor = graph.tensors[op.inputs[0]].shape, graph.tensors[scaled.inputs[1]].data
        last = total.attributes["axis"] == len(shape) - 1
        if last and factor is not None and np.all(np.abs(factor * shape[-1] - 1) < _EXACT):
            yield op


@dataclass
class _MeanStream:
    """What is added up to, and read by norms, from one tensor on: `whole` unless something else reads it."""

    graph: Graph
    first: str
    tensors: set[str] = field(default_factory=set)
    norms: list[Operator] = field(default_factory=list)
    convolutions: list[Operator] = field(default_factory=list)
    constants: list[tuple[Operator, int]] = field(default_factory=list)
    others: list[tuple[Operator, int]] = field(default_factory=list)
    """Operands of sums that nothing takes the mean out of."""
    whole: bool = True

    def __post_init__(self) -> None:
        self.channels = self.graph.tensors[self.first].shape[-1:]
        self._index = self.graph.index()
        self._differences = {op.outputs[0] for op in _norms(self.graph)}
        pending = [self.first]
        while pending and self.whole:
            name = pending.pop()
            if name in self.tensors:
                continue
            self.tensors.add(name)
            found = self._readers(name)
            self.whole = found is not None
            if found is not None:
                pending += found[0]
                self.norms += [op for op in found[1] if op not in self.norms]
                self._source(name, pending)

    def _readers(self, name: str) -> tuple[list[str], list[Operator]] | None:
        """The sums, and the norms, that read a tensor; None where anything else does."""
        sums, norms = list[str](), list[Operator]()
        if name in self.graph.outputs:
            return None
        for op in self._index.consumers(name):
            if op.op == "REDUCE_SUM":
                # Its mean must be that of a norm of this tensor alone.
                scaled = [each for each in self._index.consumers(op.outputs[0]) if each.op == "MUL"]
                ends = [end for each in scaled for end in self._index.consumers(each.outputs[0])]
                if len(scaled) != len(self._index.consumers(op.outputs[0])) or not ends:
                    return None
                if any(end.outputs[0] not in self._differences or end.inputs[0] != name for end in ends):
                    return None
            elif op.outputs[0] in self._differences and op.inputs[0] == name:
                if op.outputs[0] in self.graph.outputs:
                    return None
                norms.append(op)
            elif op.op in ("ADD", "RESHAPE") and self._same_rows(name, op.outputs[0], op.op):
                sums.append(op.outputs[0])
            else:
                return None
        return sums, norms

    def _source(self, name: str, pending: list[str]) -> None:
        """Adds what a tensor is made of."""
        op = self._index.producer(name)
        if op is not None and op.op == "RESHAPE" and self._same_rows(op.inputs[0], name, op.op):
            pending.append(op.inputs[0])
        elif op is not None and op.op == "CONV2D" and self._constant_weights(op):
            self.convolutions.append(op)
        elif op is not None and op.op == "ADD":
            for place, operand in enumerate(op.inputs):
                tensor = self.graph.tensors[operand]
                if tensor.data is not None and tensor.shape[-1:] == self.channels:
                    self.constants.append((op, place))
                elif tensor.data is None and self._joins(operand):
                    pending.append(operand)
                else:
                    self.others.append((op, place))
                    self.whole &= tensor.shape == self.graph.tensors[name].shape
        else:
            self.whole = False

    def _joins(self, operand: str) -> bool:
        """Whether a summand is a part of the stream: a sum, or what a convolution made for nothing else."""
        names = [operand]
        op = self._index.producer(operand)
        while op is not None and op.op == "RESHAPE":
            names.append(op.inputs[0])
            op = self._index.producer(op.inputs[0])
        made = op is not None and (op.op == "ADD" or (op.op == "CONV2D" and self._constant_weights(op)))
        return made and all(self._readers(name) is not None for name in names)

    def _same_rows(self, one: str, other: str, kind: str) -> bool:
        shapes = [self.graph.tensors[name].shape for name in (one, other)]
        return shapes[0] == shapes[1] if kind == "ADD" else shapes[0][-1:] == shapes[1][-1:]

    def _constant_weights(self, op: Operator) -> bool:
        weight, bias = (self.graph.tensors[name] for name in op.inputs[1:3])
        constant = weight.data is not None and bias.data is not None and weight.shape[:1] == self.channels
        return constant and not has_groups(self.graph, op)


def _centre(graph: Graph, stream: _MeanStream) -> None:
    for op in stream.convolutions:
        for place in (1, 2):
            tensor = graph.tensors[op.inputs[place]]
            assert tensor.data is not None
            wide = np.broadcast_to(tensor.data.astype(np.float64), (stream.channels[0], *tensor.shape[1:]))
            centred = wide - wide.mean(0)
            op.inputs[place] = add_constant(graph, f"{tensor.name}/centred", centred, tensor.dtype)
    for op, place in stream.constants:
        tensor = graph.tensors[op.inputs[place]]
        assert tensor.data is not None
        wide = tensor.data.astype(np.float64)
        centred = wide - wide.mean(-1, keepdims=True)
        op.inputs[place] = add_constant(graph, f"{tensor.name}/centred", centred, tensor.dtype)
    model = stream.norms[0]
    for op, place in stream.others:
        _insert_difference(graph, op, place, model)
    for norm in stream.norms:
        for op in graph.consumers(norm.outputs[0]):
            op.inputs = [norm.inputs[0] if name == norm.outputs[0] else name for name in op.inputs]
    # What computed the means has no reader any more.
    gone = {norm.outputs[0] for norm in stream.norms}
    graph.operators = [op for op in graph.operators if not gone & set(op.outputs)]
    for name in gone:
        del graph.tensors[name]


def _insert_difference(graph: Graph, reader: Operator, place: int, norm: Operator) -> None:
    """Takes the mean out of an operand, as `norm` does it."""
    scaled = graph.producer(norm.inputs[1])
    assert scaled is not None
    source = reader.inputs[place]
    tensor, rows = graph.tensors[source], graph.tensors[source].shape[:-1]
    factor = graph.tensors[scaled.inputs[1]].data
    assert factor is not None
    inverse = add_constant(
        graph, f"{source}/inverse", np.full((1,) * len(tensor.shape), factor.flat[0]), tensor.dtype
    )
    names = [fresh_name(graph, f"{source}/{what}") for what in ("sum", "mean", "centred")]
    shapes = [(*rows, 1), (*rows, 1), tensor.shape]
    for name, shape in zip(names, shapes, strict=True):
        graph.tensors[name] = Tensor(name, shape, tensor.dtype)
    total, mean, centred = names
    made = [
        Operator("REDUCE_SUM", [source], [total], {"axis": len(rows)}, f"{total}/REDUCE_SUM"),
        Operator("MUL", [total, inverse, scaled.inputs[2]], [mean], {}, f"{mean}/MUL"),
        Operator("SUB", [source, mean], [centred], {}, f"{centred}/SUB"),
    ]
    position = graph.operators.index(reader)
    graph.operators[position:position] = made
    reader.inputs[place] = centred
