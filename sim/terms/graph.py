"""A second reader of TOSA: the integer operators of the specification's text, on terms."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor

from .algebra import Algebra, UndecidedError
from .axioms import UnknownConditionError
from .lookups import Curves
from .noted import name_of
from .values import Terms

Reader = Callable[["Case"], Terms]


class LoopRule(Protocol):
    """Says what a WHILE_LOOP of which inputs tell the number of turns leaves."""

    def loop(self, loop: "Loop", state: list[Terms], condition: Terms) -> list[Terms]:
        """The state behind the loop, of one after its first turn, which goes on where the condition is 1."""


MOST_TURNS = 1 << 10
"""Turns of a loop that are followed."""
READERS: dict[str, Reader] = {}
"""Readers of operators, by name. An operator without one is undecided, but for COND_IF and WHILE_LOOP."""


def reads(*names: str) -> Callable[[Reader], Reader]:
    """Register the decorated function as the reader of these operators."""

    def register(reader: Reader) -> Reader:
        READERS.update(dict.fromkeys(names, reader))
        return reader

    return register


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator with its operands."""

    algebra: Algebra
    operator: Operator
    tensors: tuple[Tensor, ...]
    """The operands' tensors."""
    output: Tensor
    values: tuple[Terms | None, ...]
    """The operands' terms; None stands for a constant, which is its tensor's data."""

    @property
    def name(self) -> str:
        return self.operator.op

    @property
    def out(self) -> DType:
        """The result's type."""
        return self.output.dtype

    def attribute(self, name: str, otherwise: Any = None) -> Any:
        """The value of an attribute."""
        return self.operator.attributes.get(name, otherwise)

    def term(self, number: int) -> Terms:
        """An operand."""
        value = self.values[number]
        if value is not None:
            return value
        data = self.tensors[number].data
        assert data is not None
        return self.algebra.constant(np.broadcast_to(data, self.tensors[number].shape).astype(np.int64))

    def data(self, number: int) -> np.ndarray:
        """int64 of an operand that is a constant."""
        found = self.constant(number)
        if found is None:
            raise UndecidedError(f"{self.name} whose operand {number} is computed at run time")
        return found

    def constant(self, number: int) -> np.ndarray | None:
        """int64 of an operand; None where it is computed at run time."""
        value = self.values[number]
        if value is not None:
            return value.low if value.constant else None
        data = self.tensors[number].data
        assert data is not None
        return np.broadcast_to(data, self.tensors[number].shape).astype(np.int64)

    def centred(self, number: int, zero_point: int) -> Terms:
        """An operand minus its zero point, another operand."""
        return self.algebra.subtract(self.term(number), self.zero(zero_point))

    def zero(self, number: int) -> Terms:
        """A zero point, of one element and no axis; 0 where the operator has none."""
        if number >= len(self.values):
            return self.algebra.constant(np.int64(0))
        return self.term(number).reshape(-1)[0:1].reshape(())

    def required(self, terms: Terms, dtype: DType | None = None) -> Terms:
        """The specification demands that these lie in the range of the type (else: of the result's)."""
        dtype = dtype or self.out
        return self.algebra.require(terms, (dtype.min, dtype.max))

    def clipped(self, terms: Terms) -> Terms:
        """apply_clip to the result's range."""
        return self.algebra.clamp(terms, self.out.min, self.out.max)


@dataclasses.dataclass(frozen=True)
class Loop:
    """A WHILE_LOOP."""

    operator: Operator
    dtypes: tuple[DType, ...]
    """Types of its state."""
    test: Callable[[Sequence[Terms]], Terms]
    """The condition of a state."""
    body: Callable[[Sequence[Terms]], list[Terms]]
    """The state after a turn more."""


@dataclasses.dataclass
class TermEvaluation:
    """What a graph computes. `required`: of each operator how many values a REQUIRE bounds that intervals do not."""

    outputs: dict[str, Terms]
    kept: dict[str, Terms]
    required: collections.Counter[str]


def inputs_of(graph: Graph, algebra: Algebra) -> dict[str, Terms]:
    """Anything that the inputs may be."""
    return {
        name: algebra.fresh(graph.tensor(name).shape, *range_of(graph.tensor(name).dtype))
        for name in graph.inputs
    }


def range_of(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of a type."""
    if dtype is DType.BOOL:
        return 0, 1
    if not dtype.is_integer:
        raise UndecidedError(f"values of type {dtype.name}")
    return int(dtype.min), int(dtype.max)


def evaluate(
    graph: Graph,
    inputs: Mapping[str, Terms],
    algebra: Algebra,
    *,
    keep: frozenset[str] = frozenset(),
    loops: LoopRule | None = None,
) -> TermEvaluation:
    """The terms of the outputs of a graph, and of the tensors in `keep`. UnknownConditionError where no fact tells
    which way a branch goes, unless it is that of a loop after its first turn, of which `loops` are asked."""
    values = {name: algebra.facts.applied(given) for name, given in inputs.items()}
    kept = dict[str, Terms]()
    readers = collections.Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    required, curves = collections.Counter[str](), Curves(graph, algebra, _read)
    for operator in graph.operators:
        before = algebra.assumed
        results = _results(graph, operator, values, algebra, loops)
        for name, result in zip(operator.outputs, results, strict=True):
            values[name] = algebra.facts.applied(result)
            algebra.intervals.note(values[name])
            if name in keep:
                kept[name] = values[name]
        curves.follow(operator, values)
        if algebra.assumed > before:
            required[str(operator)] += algebra.assumed - before
        for name in operator.inputs:
            readers[name] -= 1
            if not readers[name]:
                values.pop(name, None)
    outputs = {}
    for name in graph.outputs:
        outputs[name] = _given(graph, name, values, algebra)
    return TermEvaluation(outputs, kept, required)


def _results(
    graph: Graph,
    operator: Operator,
    values: Mapping[str, Terms],
    algebra: Algebra,
    loops: LoopRule | None,
) -> Sequence[Terms]:
    """The terms of an operator's outputs."""

    def called(attribute: str, arguments: Sequence[Terms]) -> list[Terms]:
        """What one of the operator's graphs makes of arguments."""
        own = graph.subgraphs[operator.attributes[attribute]]
        outputs = evaluate(own, dict(zip(own.inputs, arguments, strict=True)), algebra, loops=loops).outputs
        return [outputs[name] for name in own.outputs]

    if operator.op not in ("COND_IF", "WHILE_LOOP"):
        return [_evaluated(graph, operator, values, algebra)]
    given = [_given(graph, name, values, algebra) for name in operator.inputs]
    if operator.op == "COND_IF":
        condition, *arguments = given
        branch = "then_graph" if _holds(algebra, operator, condition) else "else_graph"
        return called(branch, arguments)
    loop = Loop(
        operator,
        tuple(graph.tensor(name).dtype for name in operator.inputs),
        lambda state: called("cond_graph", state)[0].reshape(-1),
        lambda state: called("body_graph", state),
    )
    for number in range(MOST_TURNS):
        condition = loop.test(given)
        if loops is not None and number and not condition.constant:
            return loops.loop(loop, given, condition)
        if not _holds(algebra, operator, condition):
            return given
        given = loop.body(given)
    raise UndecidedError(f"more than {MOST_TURNS} turns of {operator}")


def _given(graph: Graph, name: str, values: Mapping[str, Terms], algebra: Algebra) -> Terms:
    data = graph.tensor(name).data
    return values[name] if data is None else algebra.constant(data.astype(np.int64))


def _holds(algebra: Algebra, operator: Operator, condition: Terms) -> bool:
    """Whether the one element of an operator's condition is 1."""
    term = condition.reshape(-1)
    if not term.constant:
        raise UnknownConditionError(str(operator), name_of(term))
    return bool(term.low[0])


def _evaluated(graph: Graph, operator: Operator, values: Mapping[str, Terms], algebra: Algebra) -> Terms:
    if len(operator.outputs) != 1:
        raise UndecidedError(operator.op)
    output = graph.tensor(operator.outputs[0])
    if not (output.dtype.is_integer or output.dtype is DType.BOOL):
        raise UndecidedError(f"{operator.op} of type {output.dtype.name}")
    result = _read(graph, operator, [values.get(name) for name in operator.inputs], algebra)
    shape = tuple(output.shape)
    # Of tensors without axes, functions with parameters make arrays of one element.
    return result.reshape(shape) if result.ndim > len(shape) else result.broadcast(shape)


def _read(graph: Graph, operator: Operator, given: Sequence[Terms | None], algebra: Algebra) -> Terms:
    """What the operator makes of operands, of which None stands for the constant of the graph."""
    reader = READERS.get(operator.op)
    if reader is None:
        raise UndecidedError(operator.op)
    tensors = tuple(graph.tensor(name) for name in operator.inputs)
    return reader(Case(algebra, operator, tensors, graph.tensor(operator.outputs[0]), tuple(given)))
