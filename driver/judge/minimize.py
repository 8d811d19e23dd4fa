"""The part of a graph that shows what the whole graph shows: few operators, each fed golden's values."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.ir import OPERATORS, Graph, Operator
from tosaic.errors import Error
from tosaic.sim.golden import evaluate

from .case import JudgeCase
from .outcome import JudgeOutcome, JudgeVerdict

Judge = Callable[[JudgeCase], JudgeOutcome]
_SPELT = 4
_USUAL = {("rounding_mode", "SINGLE_ROUND"), ("nan_mode", "PROPAGATE")}
TRIES_MAX = 40
"""Runs of the consumer for one graph."""


@dataclasses.dataclass(frozen=True)
class SmallestPart:
    """Numbers of the operators that are left, and what the consumer makes of them."""

    operators: tuple[int, ...]
    outcome: JudgeOutcome


def part_of(case: JudgeCase, kept: Sequence[int]) -> JudgeCase:
    """Operators of a case by their numbers; what others would give them, they are given as inputs, or as constants
    where TOSA wants one there."""
    graph = case.graph.copy()
    operators = [graph.operators[number] for number in kept]
    written = {name for operator in operators for name in operator.outputs}
    read = [name for operator in operators for name in operator.inputs]
    values = {**evaluate(case.graph, dict(case.feeds), keep=True), **case.feeds}
    constant = {name for operator in operators for name in _constant_operands(operator)}
    inputs = []
    for name in dict.fromkeys(read):
        tensor = graph.tensors[name]
        if name in written or tensor.data is not None:
            continue
        if name in constant and name not in case.graph.inputs:
            tensor.data = values[name]
        else:
            inputs.append(name)
    graph.operators, graph.inputs = operators, inputs
    graph.outputs = [
        name for name in written_in_order(operators) if name not in read or name in case.graph.outputs
    ]
    needed = {*inputs, *read, *written}
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in needed}
    return JudgeCase(case.name, graph, {name: np.asarray(values[name]) for name in inputs})


def written_in_order(operators: Sequence[Operator]) -> list[str]:
    return [name for operator in operators for name in operator.outputs]


def _constant_operands(operator: Operator) -> list[str]:
    """Operands that TOSA wants to be constants."""
    places = zip(OPERATORS[operator.op].operands, operator.inputs, strict=False)
    return [name for operand, name in places if operand.constant]


def minimized(case: JudgeCase, outcome: JudgeOutcome, judge: Judge) -> SmallestPart:
    """The smallest part that was found with an outcome of the same kind; golden's values stand for what is cut."""
    search = _Minimizer(case, outcome, judge)
    whole = SmallestPart(tuple(range(len(case.graph.operators))), outcome)
    if case.graph.states or case.forms:
        return whole
    best = search.alone() or whole
    return search.fewer(best) if len(best.operators) > 1 else best


class _Minimizer:
    def __init__(self, case: JudgeCase, outcome: JudgeOutcome, judge: Judge):
        self._case, self._outcome, self._judge = case, outcome, judge
        self._left = TRIES_MAX

    def alone(self) -> SmallestPart | None:
        """One operator that shows it alone: where values differ, the first whose result does; else each in turn."""
        for number in self._suspects():
            if found := self._shows((number,)):
                return found
        return None

    def fewer(self, part: SmallestPart) -> SmallestPart:
        """Without halves, quarters and at last single operators, as long as it still shows."""
        size = len(part.operators) // 2
        while size >= 1:
            start = 0
            while start < len(part.operators) and len(part.operators) > size:
                rest = part.operators[:start] + part.operators[start + size :]
                if found := self._shows(rest):
                    part = found
                else:
                    start += size
            size //= 2
        return part

    def _suspects(self) -> list[int]:
        numbers = list(range(len(self._case.graph.operators)))
        if self._outcome.verdict is not JudgeVerdict.DIFFERS:
            return numbers
        exposed = part_of(self._case, numbers)
        exposed.graph.outputs = [
            name for name in written_in_order(exposed.graph.operators) if name not in exposed.graph.inputs
        ]
        found = self._judged(exposed)
        owner = next(
            (n for n in numbers if found and found.output in exposed.graph.operators[n].outputs), None
        )
        # A graph whose every tensor is an output may hide what fusion does.
        return numbers if owner is None else [owner, *(n for n in numbers if n != owner)]

    def _shows(self, numbers: tuple[int, ...]) -> SmallestPart | None:
        outcome = self._judged(part_of(self._case, numbers))
        return SmallestPart(numbers, outcome) if outcome and outcome.kind == self._outcome.kind else None

    def _judged(self, part: JudgeCase) -> JudgeOutcome | None:
        """What the consumer makes of a part; None after too many, and for a part that is no legal graph."""
        if self._left <= 0:
            return None
        self._left -= 1
        try:
            return self._judge(part)
        except Error:
            return None


def operators_of(graph: Graph) -> list[str]:
    """Names of operators in a graph and its branches, each once."""
    return sorted({operator.op for part in graph.walk() for operator in part.operators})


def signature(case: JudgeCase) -> str:
    """A part in words: its operators with the types of their operands and results, and the attributes that choose a
    mode; of many operators only their names."""
    if len(case.graph.operators) > _SPELT:
        return f"{len(case.graph.operators)} operators: {', '.join(operators_of(case.graph))}"
    return ", ".join(_words(case.graph, operator) for operator in case.graph.operators)


def _words(graph: Graph, operator: Operator) -> str:
    def types(names: Sequence[str]) -> str:
        return " ".join(dict.fromkeys(graph.tensors[name].dtype.name.lower() for name in names))

    attributes = [
        name if value is True else f"{name} {value}"
        for name, value in sorted(operator.attributes.items())
        if value is True or (isinstance(value, str) and (name, value) not in _USUAL)
    ]
    data = [n for n in operator.inputs if n not in _constant_operands(operator)] or operator.inputs
    return f"{operator.op} {types(data)} -> {types(operator.outputs)}" + (
        f" ({', '.join(attributes)})" if attributes else ""
    )
