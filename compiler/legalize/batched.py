"""Many samples at once: a graph whose tensors hold those of `samples` runs, one after the other along the first axis.

A tensor [k, ...] of one sample becomes [samples * k, ...]. Weights stay what they are, so one fetch serves all samples.
An operator that works along its first axis gets one axis more for the samples, and its result loses it again; such
RESHAPEs move nothing. What depends on no input stays as it is.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.cut.boxes import NotCut
from tosaic.compiler.cut.nests import Nest
from tosaic.compiler.cut.rules import nest_of
from tosaic.compiler.ir import (
    OPERATORS,
    ByOperator,
    Graph,
    Operator,
    State,
    Tensor,
    Trait,
    data_inputs,
    operators_with,
)
from tosaic.compiler.ir.operators.spec import MAX_RANK
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.errors import InputError, UnsupportedError

Shape = tuple[int, ...]


def batched(graph: Graph, samples: int) -> Graph:
    """The graph of `samples` runs at once; each has states of its own.

    InputError for fewer than one sample, UnsupportedError that names an operator, input or output that has no batch.
    """
    if samples < 1:
        raise InputError(f"a batch has at least 1 sample, not {samples}")
    return graph if samples == 1 else _Batching(graph, samples).run()


class _Batching:
    """The rewrite of a copy of a graph."""

    def __init__(self, graph: Graph, samples: int):
        self.one, self.graph, self.samples = graph, graph.copy(), samples
        self.single: dict[str, Shape] = {}
        """Shapes of one sample, of the tensors that hold all samples."""

    def run(self) -> Graph:
        graph = self.graph
        for name in graph.inputs:
            self._grow(name, f"input {name!r}")
        graph.states = {
            name: State(state.output, self._repeated(np.asarray(state.initial), graph.tensors[name].shape))
            for name, state in graph.states.items()
        }
        done: list[Operator] = []
        for operator in graph.operators:
            if not any(name in self.single for name in operator.inputs):
                done.append(operator)
                continue
            done += self._rewritten(operator)
        graph.operators = done
        for name in graph.outputs:
            if name not in self.single:
                raise UnsupportedError(
                    f"output {name!r} is the same for every sample: it depends on no input; {_WAY_OUT}"
                )
        graph.declared = {
            name: dataclasses.replace(each, shape=graph.tensors[name].shape)
            for name, each in graph.declared.items()
        }
        return graph

    def _repeated(self, values: np.ndarray, shape: Shape) -> np.ndarray:
        return np.concatenate([values.reshape(shape[0] // self.samples, *shape[1:])] * self.samples)

    def _grow(self, name: str, what: str) -> None:
        """The tensor is one of all samples from here on."""
        tensor = self.graph.tensors[name]
        if not tensor.shape:
            raise UnsupportedError(f"{what} has rank 0, and no axis for the samples of a batch; {_WAY_OUT}")
        self.single[name] = tensor.shape
        shape = (self.samples * tensor.shape[0], *tensor.shape[1:])
        self.graph.tensors[name] = Tensor(name, shape, tensor.dtype)

    def _rewritten(self, operator: Operator) -> list[Operator]:
        """The operators that compute its result for all samples."""
        step = _Step(self, operator)
        _RULES.get(operator.op, _between_samples)(step)
        return step.new.operators if step.replaced else [operator]


_WAY_OUT = "run the samples one after the other (without a batch)"


class _Step:
    """One operator that reads tensors of all samples."""

    def __init__(self, batching: _Batching, operator: Operator):
        self.graph, self.samples, self.single = batching.graph, batching.samples, batching.single
        self._batching, self.operator = batching, operator
        self.new = Rewriting(self.graph, operator)
        self.replaced = False

    # --- what rules ask

    def of_samples(self, name: str) -> bool:
        """Whether a tensor holds all samples."""
        return name in self.single

    def refuse(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.operator}: {why}; {_WAY_OUT}")

    def refuse_operand(self, position: int) -> UnsupportedError:
        operand = OPERATORS[self.operator.op].operands[position].name
        name = self.operator.inputs[position]
        return self.refuse(f"its {operand} ({name!r}) is another one for each sample of a batch")

    def refuse_others(self, *positions: int) -> None:
        """Refuses operands of all samples but at these positions."""
        for position, name in enumerate(self.operator.inputs):
            if position not in positions and self.of_samples(name):
                raise self.refuse_operand(position)

    def mixed(self) -> list[int]:
        """Positions of the operands by which an element of the result would read other samples than its own, if the
        samples lay one after the other along the first axis."""
        operator, nest = self.operator, nest_of(self._batching.one, self.operator)
        if isinstance(nest, NotCut):
            raise self.refuse(f"{operator.op} has no batch, as {nest.reason}")
        assert isinstance(nest, Nest), f"{operator.op} has a rule of its own"
        self.refuse_others(*nest.operands)
        return [position for position in range(len(operator.inputs)) if not self._apart(nest, position)]

    def _apart(self, nest: Nest, position: int) -> bool:
        name = self.operator.inputs[position]
        if self.of_samples(name):
            return nest.follows(position, 0)
        spread = position < len(data_inputs(self.operator)) and self.graph.tensors[name].shape[:1] == (1,)
        return spread or nest.ignores(position, 0)

    def keep(self) -> None:
        """The operator works on all samples as it is."""
        for name in self.operator.outputs:
            self._batching._grow(name, f"{self.operator}: its result {name!r}")

    def sizes(self, operand: str) -> list[int]:
        """The values of a shape operand."""
        return [int(value) for value in self.graph.operand_value(self.operator, operand)]

    # --- what rules do

    def lifted(self, name: str) -> str:
        """A tensor with an axis for the samples before its own: [samples, k, ...], or [1, k, ...] if it is the same for
        all."""
        shape = self.single.get(name) or self.graph.tensors[name].shape
        if len(shape) >= MAX_RANK:
            raise self.refuse(
                f"{name!r} has rank {len(shape)}, and no axis is left for the samples of a batch"
            )
        return self.new.reshape(name, (self.samples if self.of_samples(name) else 1, *shape))

    def spread(self, name: str) -> str:
        """A tensor of all samples; one that is the same for all is repeated."""
        if self.of_samples(name):
            return name
        tensor = self.graph.tensors[name]
        if tensor.data is not None:
            return self.new.constant(np.concatenate([tensor.data] * self.samples), tensor.dtype)
        multiples = self.new.sizes([self.samples] + [1] * (len(tensor.shape) - 1))
        return self.new.op("TILE", name, multiples)

    def op(self, operands: list[str], **changed: Any) -> str:
        """The operator on other operands, with some attributes changed; its result has a name of its own."""
        result = self.graph.tensors[self.operator.outputs[0]]
        attributes = self.operator.attributes | changed
        return self.new.build.add(self.operator.op, operands, dtype=result.dtype, **attributes)

    def finish(self, result: str) -> None:
        """The operator's result has the elements of `result`."""
        (name,) = self.operator.outputs
        self._batching._grow(name, f"{self.operator}: its result {name!r}")
        shape = self.graph.tensors.pop(name).shape
        self.new.reshape(result, shape, name)
        self.replaced = True


# --- rules


_RULES = ByOperator[Callable[[_Step], None]]()
"""Operators that need more than an axis more; all others are `_between_samples`."""
_WITH_AN_AXIS_MORE = ByOperator[Callable[[_Step], str]]()
"""The operator on tensors with an axis more before the others, which has no part in what it does; the result's name."""


def _between_samples(step: _Step) -> None:
    """Operators that no sample reads another one by stay as they are; others get an axis more for the samples."""
    mixed = step.mixed()
    if not mixed:
        step.keep()
    elif step.operator.op in _WITH_AN_AXIS_MORE:
        step.refuse_others(*range(len(data_inputs(step.operator))))
        step.finish(_WITH_AN_AXIS_MORE[step.operator.op](step))
    else:
        raise step.refuse_operand(mixed[0])


@_WITH_AN_AXIS_MORE.of_each(operators_with(Trait.ELEMENTWISE))
def _elementwise(step: _Step) -> str:
    """What is broadcast is broadcast within a sample."""
    count, inputs = len(data_inputs(step.operator)), step.operator.inputs
    return step.op([*(step.lifted(name) for name in inputs[:count]), *inputs[count:]])


@_WITH_AN_AXIS_MORE.of("ARGMAX", "REVERSE")
@_WITH_AN_AXIS_MORE.of_each(operators_with(Trait.REDUCES))
def _along_axis(step: _Step) -> str:
    return step.op([step.lifted(step.operator.inputs[0])], axis=step.operator.attributes["axis"] + 1)


@_WITH_AN_AXIS_MORE.of("PAD")
def _pad(step: _Step) -> str:
    x, _, value = step.operator.inputs
    return step.op([step.lifted(x), step.new.sizes([0, 0, *step.sizes("padding")]), value])


@_WITH_AN_AXIS_MORE.of("TILE")
def _tile(step: _Step) -> str:
    return step.op([step.lifted(step.operator.inputs[0]), step.new.sizes([1, *step.sizes("multiples")])])


@_WITH_AN_AXIS_MORE.of("TRANSPOSE")
def _transpose(step: _Step) -> str:
    perms = step.operator.attributes["perms"]
    return step.op([step.lifted(step.operator.inputs[0])], perms=[0, *(axis + 1 for axis in perms)])


@_RULES.of("CONCAT")
def _concat(step: _Step) -> None:
    axis, spread = step.operator.attributes["axis"], [step.spread(name) for name in step.operator.inputs]
    if axis > 0:
        step.finish(step.op(spread))
        return
    lifted = []
    for name, of_all in zip(step.operator.inputs, spread, strict=True):
        shape = step.single.get(name) or step.graph.tensors[name].shape
        if len(shape) >= MAX_RANK:
            raise step.refuse(
                f"it joins along the first of {len(shape)} axes, and none is left for the samples"
            )
        lifted.append(step.new.reshape(of_all, (step.samples, *shape)))
    step.finish(step.op(lifted, axis=1))


@_RULES.of("RESHAPE")
def _reshape(step: _Step) -> None:
    step.finish(step.operator.inputs[0])


@_RULES.of("SLICE")
def _slice(step: _Step) -> None:
    x, start, _ = step.operator.inputs
    starts, extents = step.sizes("start"), step.sizes("size")
    if extents[0] == step.single[x][0]:
        step.finish(step.op([x, start, step.new.sizes([step.samples * extents[0], *extents[1:]])]))
    else:
        boxes = step.new.sizes([0, *starts]), step.new.sizes([step.samples, *extents])
        step.finish(step.op([step.lifted(x), *boxes]))


@_RULES.of("MATMUL")
def _matmul(step: _Step) -> None:
    """A second operand that all samples share makes one tall matrix of their first ones."""
    a, b, *zero_points = step.operator.inputs
    step.refuse_others(0, 1)
    matrices, rows, inner = step.graph.tensors[a].shape
    shared = not step.of_samples(b) and step.graph.tensors[b].shape[0] == 1
    if shared:
        tall = step.new.reshape(a, (1, matrices * rows, inner))
        step.finish(step.op([tall, b, *zero_points]))
    else:
        step.finish(step.op([step.spread(a), step.spread(b), *zero_points]))


@_RULES.of("GATHER")
def _gather(step: _Step) -> None:
    """All samples read a table that they share."""
    values, indices = step.operator.inputs
    if not step.of_samples(values) and step.graph.tensors[values].shape[0] == 1:
        batches, count = step.graph.tensors[indices].shape
        step.finish(step.op([values, step.new.reshape(indices, (1, batches * count))]))
    else:
        step.finish(step.op([step.spread(values), step.spread(indices)]))


@_RULES.of("SCATTER")
def _scatter(step: _Step) -> None:
    step.finish(step.op([step.spread(name) for name in step.operator.inputs]))
