"""Moves TRANSPOSEs towards the outputs, where those of neighbouring layers meet and cancel."""

from collections.abc import Sequence

import numpy as np

from tosaic.compiler.importers.lowering.regroup import regroup
from tosaic.compiler.ir import OPERATORS, DType, Graph, Operator, Tensor, Trait, data_inputs, operators_with
from tosaic.compiler.ir.building import drop_identities, remove_dead, rename_tensor
from tosaic.compiler.ir.operators.common import AXIS

_ELEMENTWISE = operators_with(Trait.ELEMENTWISE) | {"CUSTOM"}
"""CUSTOM is a marker of an encoding (`encoding_marker`)."""
_PER_AXIS = {
    name: per_axis
    for name, spec in OPERATORS.items()
    if (per_axis := [operand.name for operand in spec.operands if operand.per_axis])
}
"""Operands that have the same count of numbers for each axis, by operator."""
_MOVABLE = (
    _ELEMENTWISE | _PER_AXIS.keys() | {name for name, spec in OPERATORS.items() if AXIS in spec.attributes}
)
_MOVABLE -= {"ARGMAX"}
"""Operators whose results have the operands' axes in their order; a RESCALE by channel needs these last."""
Pending = tuple[str, tuple[int, ...]]


def cancel_transposes(graph: Graph, outputs: Sequence[tuple[str, str]]) -> Graph:
    """A graph of the same meaning with fewer TRANSPOSEs, without what no output needs.

    `outputs` pairs each output's final name with its tensor in `graph`; constants and inputs that are outputs
    get an IDENTITY.
    """
    return _TransposeSinking(graph).run(outputs)


class _TransposeSinking:
    def __init__(self, graph: Graph) -> None:
        self.old = graph
        self.new = Graph(graph.name, list(graph.inputs), [], {}, [], graph.version)
        for name, tensor in graph.tensors.items():
            self.new.tensors[name] = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data)
        # A tensor of the old graph that is not computed yet: TRANSPOSE(source, perms).
        self.pending: dict[str, Pending] = {}
        self.count = 0
        self.sources = {name: op.source for op in graph.operators for name in op.outputs}
        # What the tensors of the old graph are called by now.
        self.current = {name: name for name in graph.tensors}

    def run(self, outputs: Sequence[tuple[str, str]]) -> Graph:
        for op in self.old.operators:
            if op.op == "TRANSPOSE":
                self._compose(op)
            elif not self._regrouped(op) and not self._pushed(op):
                for name in op.inputs:
                    self._materialise(name)
                self.new.operators.append(op)
        for name, tensor in outputs:
            self._output(name, tensor)
        drop_identities(self.new)
        remove_dead(self.new)
        return self.new

    def _compose(self, op: Operator) -> None:
        source, inner = self.pending.get(op.inputs[0], (op.inputs[0], None))
        perms = tuple(op.attributes["perms"])
        if inner is not None:
            perms = tuple(inner[axis] for axis in perms)
        self.pending[op.outputs[0]] = (source, perms)

    def _regrouped(self, op: Operator) -> bool:
        """Moves a RESHAPE in front of the TRANSPOSE that it reads, where that is possible."""
        if op.op != "RESHAPE" or op.inputs[0] not in self.pending:
            return False
        source, perms = self.pending[op.inputs[0]]
        found = regroup(self.new.tensors[source].shape, perms, self.new.tensors[op.outputs[0]].shape)
        if found is None:
            return False
        shape, turned = found
        if shape != self.new.tensors[source].shape:
            self.count += 1
            inner = f"layout_{self.count}"
            self.new.tensors[inner] = Tensor(inner, shape, self.new.tensors[source].dtype)
            sizes = self._constant(np.array(shape, np.int64), DType.SHAPE)
            self.new.operators.append(Operator("RESHAPE", [source, sizes], [inner], {}, op.name))
            source = inner
        self.pending[op.outputs[0]] = (source, turned)
        return True

    def _materialise(self, name: str) -> None:
        """Computes a pending tensor under its own name; an identity takes the place of its source."""
        if name not in self.pending:
            return
        source, perms = self.pending.pop(name)
        moved = [axis for axis in perms if self.new.tensors[source].shape[axis] != 1]
        if list(perms) == list(range(len(perms))):
            self._add("IDENTITY", [source], name)
        elif moved == sorted(moved):
            shape = self._constant(np.array(self.new.tensors[name].shape, np.int64), DType.SHAPE)
            self._add("RESHAPE", [source, shape], name)
        else:
            self._add("TRANSPOSE", [source], name, perms=list(perms))

    def _add(self, op: str, inputs: list[str], output: str, **attributes: object) -> None:
        self.count += 1
        source = self.sources.get(output) or self.sources.get(inputs[0]) or "layout"
        label = f"{source}:layout/{op}_{self.count}"
        self.new.operators.append(Operator(op, inputs, [output], attributes, label))

    def _constant(self, data: np.ndarray, dtype: DType) -> str:
        self.count += 1
        name = f"layout_constant_{self.count}"
        self.new.tensors[name] = Tensor(name, data.shape, dtype, data)
        return name

    def _pushed(self, op: Operator) -> bool:
        """Computes `op` on the sources of its transposed inputs, where it can; its result is pending then."""
        if op.op not in _MOVABLE or op.attributes.get("per_channel"):
            return False
        operands = data_inputs(op)
        perms = next((self.pending[name][1] for name in operands if name in self.pending), None)
        rank = len(self.new.tensors[op.outputs[0]].shape)
        if perms is None or any(not self._fits(name, perms, rank) for name in operands):
            return False
        inverse = [int(axis) for axis in np.argsort(perms)]
        inputs = [self._source(name, perms, inverse) for name in operands] + op.inputs[len(operands) :]
        attributes = dict(op.attributes)
        if "axis" in attributes:
            attributes["axis"] = int(perms[attributes["axis"]])
        for operand in _PER_AXIS.get(op.op, ()):
            position = OPERATORS[op.op].operand_index(operand)
            numbers = self.new.tensors[op.inputs[position]].data
            assert numbers is not None
            moved = numbers.reshape(rank, -1)[inverse].reshape(-1)
            inputs[position] = self._constant(moved, DType.SHAPE)
        output = self.new.tensors[op.outputs[0]]
        self.count += 1
        inner = f"layout_{self.count}"
        self.new.tensors[inner] = Tensor(inner, tuple(output.shape[axis] for axis in inverse), output.dtype)
        self.new.operators.append(Operator(op.op, inputs, [inner], attributes, op.name))
        self.pending[op.outputs[0]] = (inner, perms)
        return True

    def _fits(self, name: str, perms: tuple[int, ...], rank: int) -> bool:
        if name in self.pending:
            return self.pending[name][1] == perms
        tensor = self.new.tensors[name]
        return len(tensor.shape) == rank and (tensor.data is not None or all(n == 1 for n in tensor.shape))

    def _source(self, name: str, perms: tuple[int, ...], inverse: list[int]) -> str:
        if name in self.pending:
            return self.pending[name][0]
        tensor = self.new.tensors[name]
        if tensor.data is None or all(size == 1 for size in tensor.shape):
            return name
        return self._constant(np.ascontiguousarray(tensor.data.transpose(inverse)), tensor.dtype)

    def _output(self, name: str, tensor: str) -> None:
        """The tensor becomes an output of that name."""
        tensor = self.current[tensor]
        self._materialise(tensor)
        if tensor == name and self.new.tensors[tensor].data is None:
            self.new.outputs.append(name)
            return
        if name in self.new.tensors:
            self._rename(name)
            tensor = f"{name}/inner" if tensor == name else tensor
        source = self.new.tensors[tensor]
        producer = next((op for op in self.new.operators if tensor in op.outputs), None)
        if producer is None or tensor in self.new.outputs:
            self.new.tensors[name] = Tensor(name, source.shape, source.dtype)
            self._add("IDENTITY", [tensor], name)
        else:
            self._rename(tensor, name)
        self.new.outputs.append(name)

    def _rename(self, old: str, new: str = "") -> None:
        """Gives a tensor another name everywhere."""
        new = new or f"{old}/inner"
        for original, name in self.current.items():
            if name == old:
                self.current[original] = new
        rename_tensor(self.new, old, new)
        self.pending = {
            (new if key == old else key): (new if source == old else source, perms)
            for key, (source, perms) in self.pending.items()
        }
