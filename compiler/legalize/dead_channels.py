"""Removal of channels that carry nothing: exact, whatever the network's inputs are.

A channel is removed if everybody who reads it gets the same from a constant: a convolution whose weights for it are
zero, or to which it adds the same number at every place, which goes into the bias. Operators that treat channels one by
one lose the channel, too. Where a number that is not the zero point meets padding, it stays.
"""

import dataclasses

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor, Trait, data_inputs, operators_with
from tosaic.compiler.legalize.constant_channels import absorbed, added, constant_channels, fits, weights_of

_ELEMENTWISE, _POOLS = operators_with(Trait.ELEMENTWISE), operators_with(Trait.POOLS)


def remove_dead_channels(graph: Graph, columns: int) -> Graph:
    """A graph with the same inputs, outputs and results; constants of `graph` are folded already. What is left of a
    tensor's channels is a multiple of `columns`, the array's, where the tensor had as many."""
    graph = graph.copy()
    while _ChannelPass(graph, columns).apply():
        pass
    return graph


@dataclasses.dataclass
class _Family:
    """Tensors that have their channels one for one."""

    tensors: list[str]
    removable: np.ndarray
    """Whether each channel may go, bool [C]."""


class _ChannelPass:
    """One look at the graph, and one rewrite."""

    def __init__(self, graph: Graph, columns: int):
        self.graph, self.columns = graph, columns
        self.constant = constant_channels(graph)
        self.family: dict[str, _Family] = {}
        self.readers: dict[str, list[Operator]] = {}
        for operator in graph.operators:
            for name in dict.fromkeys(operator.inputs):
                self.readers.setdefault(name, []).append(operator)

    def apply(self) -> bool:
        """Removes what it finds; False if that is nothing."""
        for operator in self.graph.operators:
            self._join(operator)
        for family in self._families():
            self._ask_readers(family)
            self._keep_some(family)
        if not any(family.removable.any() for family in self._families()):
            return False
        for operator in self.graph.operators:
            self._shrink(operator)
        for name, family in self.family.items():
            self._shrink_tensor(name, ~family.removable)
        return True

    # --- families

    def _families(self) -> list[_Family]:
        return list({id(family): family for family in self.family.values()}.values())

    def _join(self, operator: Operator) -> None:
        """Puts the results of an operator into a family, if it makes channels one for one or by themselves."""
        if len(operator.outputs) != 1:
            return
        target, graph = operator.outputs[0], self.graph
        if operator.op == "CONV2D":
            if weights_of(graph, operator) is not None:
                self.family[target] = _Family([target], self._none(target))
                self.family[target].removable[:] = True
            return
        sources = self._same_channels(operator)
        families = [self.family.get(name) for name in sources]
        if not sources or any(family is None for family in families):
            return
        merged = _Family([], self._none(target))
        merged.removable = np.logical_and.reduce([f.removable for f in families if f is not None])
        members = {name for family in families if family is not None for name in family.tensors}
        merged.tensors = [*members, target]
        for name in merged.tensors:
            self.family[name] = merged

    def _none(self, name: str) -> np.ndarray:
        return np.zeros(self.graph.tensors[name].shape[-1], bool)

    def _same_channels(self, operator: Operator) -> list[str]:
        """The inputs whose channels the result has, one for one; none if that is not so."""
        graph, target = self.graph, self.graph.tensors[operator.outputs[0]]
        source = graph.tensors[operator.inputs[0]]
        if operator.op in _POOLS:
            return [source.name]
        if operator.op == "RESHAPE" and len(source.shape) > 0 and source.shape[-1:] == target.shape[-1:]:
            return [source.name]
        if operator.op == "RESCALE":
            named = (graph.operand(operator, name) for name in ("multiplier", "shift"))
            return [source.name] if all(n is not None and graph.const(n) is not None for n in named) else []
        if operator.op == "DEPTHWISE_CONV2D":
            found = weights_of(graph, operator)
            return [source.name] if found is not None and found[0].shape[3] == 1 else []
        if operator.op in _ELEMENTWISE:
            computed = [name for name in data_inputs(operator) if graph.const(name) is None]
            if all(graph.tensors[name].shape == target.shape for name in computed):
                return computed
        return []

    def _ask_readers(self, family: _Family) -> None:
        for name in family.tensors:
            if name in self.graph.outputs or name in self.graph.inputs:
                family.removable[:] = False
            for reader in self.readers.get(name, []):
                if reader.outputs and self.family.get(reader.outputs[0]) is family:
                    continue
                family.removable &= self._unread(reader, name)

    def _unread(self, reader: Operator, name: str) -> np.ndarray:
        """bool [C]: channels of the tensor that `reader` can do without."""
        found = weights_of(self.graph, reader) if reader.op == "CONV2D" else None
        if found is None or reader.inputs.index(name) != 0 or reader.inputs.count(name) > 1:
            return self._none(name)
        weights, bias = found
        numbers = added(self.graph, reader, self.constant.get(name))
        assert numbers is not None
        zero = ~weights.any(axis=(0, 1, 2))
        without = zero | absorbed(self.graph, reader, self.constant.get(name))
        # The bias takes what the channels add; all partial sums must be numbers of its type.
        worst = np.abs(bias) + np.abs(numbers[:, without]).sum(axis=1)
        dtype = self.graph.tensors[reader.inputs[2]].dtype
        return without if fits(worst, dtype).all() else zero

    def _keep_some(self, family: _Family) -> None:
        """Keeps at least one channel, and whole tiles of the array where there were such."""
        total = len(family.removable)
        kept = int(total - family.removable.sum())
        wanted = max(kept, 1)
        if total >= self.columns:
            wanted = min(total, -(-wanted // self.columns) * self.columns)
        family.removable[np.flatnonzero(family.removable)[: wanted - kept]] = False

    # --- rewriting

    def _kept(self, name: str) -> np.ndarray:
        family = self.family.get(name)
        if family is None:
            return np.ones(self.graph.tensors[name].shape[-1], bool)
        return ~family.removable

    def _shrink(self, operator: Operator) -> None:
        if (
            len(operator.outputs) != 1
            or not operator.inputs
            or not self.graph.tensors[operator.outputs[0]].shape
        ):
            return
        name, target = operator.inputs[0], operator.outputs[0]
        if operator.op == "CONV2D" and weights_of(self.graph, operator) is not None:
            self._shrink_convolution(operator, self._kept(name), self._kept(target))
        elif target in self.family and not self._kept(target).all():
            self._shrink_operands(operator, self._kept(target))

    def _shrink_convolution(self, operator: Operator, inputs: np.ndarray, outputs: np.ndarray) -> None:
        if inputs.all() and outputs.all():
            return
        graph, found = self.graph, weights_of(self.graph, operator)
        numbers = added(graph, operator, self.constant.get(operator.inputs[0]))
        assert found is not None and numbers is not None
        bias = found[1] + numbers[:, ~inputs].sum(axis=1)
        weights = graph.operand_value(operator, "weight")
        self._replace(operator, 1, np.ascontiguousarray(weights[outputs][..., inputs]))
        self._replace(operator, 2, bias[outputs])

    def _shrink_operands(self, operator: Operator, kept: np.ndarray) -> None:
        """Constant operands with an entry for each channel."""
        graph = self.graph
        match operator.op:
            case "DEPTHWISE_CONV2D":
                found = weights_of(graph, operator)
                assert found is not None
                self._replace(operator, 1, graph.operand_value(operator, "weight")[:, :, kept])
                self._replace(operator, 2, found[1][kept])
            case "RESCALE" if operator.attributes["per_channel"]:
                for index in (1, 2):
                    values = graph.tensors[operator.inputs[index]].data
                    assert values is not None
                    self._replace(operator, index, values[kept])
            case "RESHAPE":
                shape = graph.tensors[operator.outputs[0]].shape
                self._replace(operator, 1, np.array([*shape[:-1], int(kept.sum())]))
            case _ if operator.op in _ELEMENTWISE:
                for index, name in enumerate(data_inputs(operator)):
                    values = graph.const(name)
                    if values is not None and values.shape and values.shape[-1] == len(kept) > 1:
                        self._replace(operator, index, values[..., kept])

    def _replace(self, operator: Operator, index: int, values: np.ndarray) -> None:
        """A constant of its own for an operand: others may share the old one."""
        old = self.graph.tensors[operator.inputs[index]]
        number = 0
        while (name := f"{old.name}'{number}") in self.graph.tensors:
            number += 1
        data = np.ascontiguousarray(values).astype(old.dtype.numpy)
        self.graph.tensors[name] = Tensor(name, data.shape, old.dtype, data)
        operator.inputs[index] = name

    def _shrink_tensor(self, name: str, kept: np.ndarray) -> None:
        tensor = self.graph.tensors[name]
        shape = (*tensor.shape[:-1], int(kept.sum()))
        self.graph.tensors[name] = Tensor(name, shape, tensor.dtype)
