"""Softmax in front of a product with other activations: the division by the sum follows the product.

Powers go up to 1 in every row, so one scale suits them all; shares of a long, flat row are small beside those of a
peaky one. So MATMUL(powers / sum, values) becomes MATMUL(powers, values) / sum, through whatever moves or masks the
shares on their way.
"""

import itertools
import math
from bisect import bisect_left
from operator import mul

import numpy as np

from tosaic.compiler.ir import (
    DType,
    Graph,
    GraphBuilder,
    GraphIndex,
    Operator,
    Trait,
    data_inputs,
    operators_with,
)
from tosaic.compiler.ir.building import FoldingBuilder, remove_dead
from tosaic.compiler.quantizer.functions import PASSED_ON, is_real, less_its_maximum

Shape = tuple[int, ...]
_BEFORE_POWERS = frozenset({"MUL", *PASSED_ON, *operators_with(Trait.BOUNDS)})
"""What may stand between EXP and scores less their maximum: the largest of a row stays there, at 0."""


def divide_products(graph: Graph) -> None:
    """Moves the division of each softmax that nothing but products reads behind these, in place."""
    index = graph.index()
    for op in [each for each in graph.operators if each.op == "MUL"]:
        for powers, factors in itertools.permutations(op.inputs[:2]):
            if not _is_softmax(graph, index, op, powers, factors):
                continue
            cleaning = _nan_to_zero(graph, index, op.outputs[0])
            shares = (cleaning or op).outputs[0]
            steps = _steps(graph, index, shares, graph.tensors[factors].shape)
            if not steps:
                continue
            parts = {shares: (powers, factors)}
            replaced = {} if cleaning is None else _cleaned(graph, cleaning, parts)
            _divide(graph, parts, steps, replaced)
            index = graph.index()
            break
    remove_dead(graph)


def _is_softmax(graph: Graph, index: GraphIndex, op: Operator, powers: str, factors: str) -> bool:
    """Whether a MUL gives shares: powers by a factor for each row."""
    sizes = [math.prod(graph.tensors[name].shape) for name in (powers, factors)]
    divisor = index.producer(factors)
    while divisor is not None and divisor.op in ("CAST", "RESHAPE"):
        divisor = index.producer(divisor.inputs[0])
    if divisor is None or divisor.op != "RECIPROCAL" or sizes[1] >= sizes[0]:
        return False
    same = graph.tensors[powers].shape == graph.tensors[op.outputs[0]].shape
    return same and _are_powers(graph, index, powers)


def _are_powers(graph: Graph, index: GraphIndex, name: str) -> bool:
    """Whether a tensor is EXP of scores less their maximum, with zeros where it is masked."""
    op = index.producer(name)
    while op is not None and (op.op in PASSED_ON or _selects_zero(graph, op)):
        op = _only_source(graph, index, op)
    op = _only_source(graph, index, op) if op is not None and op.op == "EXP" else None
    while op is not None and op.op in _BEFORE_POWERS:
        constants = [graph.tensors[each].data for each in data_inputs(op)] if op.op == "MUL" else []
        if any(value is not None and not np.all(value > 0) for value in constants):
            return False
        op = _only_source(graph, index, op)
    return op is not None and less_its_maximum(op, index.producer)


def _only_source(graph: Graph, index: GraphIndex, op: Operator) -> Operator | None:
    """What makes the one real operand of an operator that is no constant."""
    names = [name for name in data_inputs(op) if is_real(graph, name) and graph.tensors[name].data is None]
    return index.producer(names[0]) if len(names) == 1 else None


def _selects_zero(graph: Graph, op: Operator) -> bool:
    values = [graph.tensors[name].data for name in op.inputs[1:]] if op.op == "SELECT" else []
    return any(value is not None and not value.any() for value in values)


def _nan_to_zero(graph: Graph, index: GraphIndex, shares: str) -> Operator | None:
    """The SELECT that alone reads shares, but for its test whether they are NaN: PyTorch has it behind a mask."""
    readers = index.consumers(shares)
    tests = [op for op in readers if op.op == "EQUAL" and op.inputs == [shares, shares]]
    chosen = [op for op in readers if _selects_zero(graph, op)]
    if len(tests) != 1 or len(chosen) != 1 or len(readers) != 2 or shares in graph.outputs:
        return None
    test = index.producer(chosen[0].inputs[0])
    inverted = test is not None and test.op == "LOGICAL_NOT"
    test = index.producer(test.inputs[0]) if test is not None and inverted else test
    return chosen[0] if test is tests[0] and chosen[0].inputs[2 if inverted else 1] == shares else None


def _cleaned(graph: Graph, select: Operator, parts: dict[str, tuple[str, str]]) -> dict[int, list[Operator]]:
    """Zeros for what is NaN in powers, and in factors, in place of their product."""
    build = GraphBuilder.replacing(graph, select)
    new, cleaned = FoldingBuilder(build), list[str]()
    for name in parts[select.outputs[0]]:
        zero = new.constant(np.zeros((1,) * new.rank(name)), new.dtype(name))
        cleaned.append(new.op("SELECT", new.op("EQUAL", name, name), name, zero))
    parts[select.outputs[0]] = (cleaned[0], cleaned[1])
    return {id(select): build.operators}


# --- from the shares to the products ------------------------------------------------------------------------------


def _steps(graph: Graph, index: GraphIndex, shares: str, factors: Shape) -> list[tuple[Operator, str, Shape]]:
    """The operators from shares to the products that read them; of each, the operand that is theirs, and the shape
    of its result's factors. Nothing where something else reads them."""
    found: list[tuple[Operator, str, Shape]] = []
    pending = [(shares, factors)]
    while pending:
        name, shape = pending.pop()
        readers = index.consumers(name)
        if not readers or name in graph.outputs:
            return []
        for op in readers:
            behind = _behind(graph, op, name, shape)
            if behind is None or any(op is other for other, _, _ in found):
                return []
            found.append((op, name, behind))
            if op.op != "MATMUL":
                pending.append((op.outputs[0], behind))
    return found


def _behind(graph: Graph, op: Operator, name: str, factors: Shape) -> Shape | None:
    """The shape of the factors of an operator's result, of whose operand `name` factors are left out; None where they
    cannot follow the operator."""
    shape, result = (graph.tensors[each].shape for each in (name, op.outputs[0]))
    if op.inputs.count(name) != 1:
        return None
    if op.op == "MATMUL":
        rows, depth = (1, 2) if name == op.inputs[0] else (2, 1)
        if factors[depth] > 1:
            return None
        return (factors[0], factors[rows], 1) if rows == 1 else (factors[0], 1, factors[rows])
    if op.op == "RESHAPE":
        return _reshaped(shape, result, factors)
    if op.op == "TRANSPOSE":
        return tuple(factors[axis] for axis in op.attributes["perms"])
    if op.op == "SLICE":
        return tuple(min(sizes) for sizes in zip(factors, result, strict=True))
    elementwise = op.op == "MUL" or (op.op == "CAST" and is_real(graph, op.outputs[0]))
    if elementwise or (_selects_zero(graph, op) and name != op.inputs[0]):
        return factors if shape == result else None
    return None


def _reshaped(shape: Shape, result: Shape, factors: Shape) -> Shape | None:
    """The shape of factors where their tensor takes another: axes along which they are equal stay apart from others,
    or None."""
    ends = [list(itertools.accumulate(each, mul)) for each in (shape, result)]
    common = sorted({*ends[0]} & {*ends[1]})
    equal: dict[int, bool] = {}
    for size, end, factor in zip(shape, ends[0], factors, strict=True):
        if size > 1 and equal.setdefault(bisect_left(common, end), factor == 1) != (factor == 1):
            return None
    return tuple(
        1 if size == 1 or equal[bisect_left(common, end)] else size
        for size, end in zip(result, ends[1], strict=True)
    )


def _divide(
    graph: Graph,
    parts: dict[str, tuple[str, str]],
    steps: list[tuple[Operator, str, Shape]],
    replaced: dict[int, list[Operator]],
) -> None:
    """Repeats the steps with powers in place of shares, and multiplies the products' results; `parts` are the powers
    and the factors of shares, `replaced` the operators that take the place of others."""
    for op, name, shape in steps:
        build = GraphBuilder.replacing(graph, op)
        new, result = FoldingBuilder(build), op.outputs[0]
        source, factors = parts[name]
        operands = [source if each == name else each for each in op.inputs]
        step = new.op(op.op, *operands, dtype=graph.tensors[result].dtype, **op.attributes)
        if op.op == "MATMUL":
            if new.dtype(factors) is not new.dtype(step):
                factors = new.op("CAST", factors, dtype=new.dtype(step))
            new.op("MUL", step, factors, new.constant([0], DType.INT8), output=result)
        elif op.op == "RESHAPE":
            factors = new.reshape(factors, shape)
        elif op.op == "TRANSPOSE":
            factors = new.transpose(factors, op.attributes["perms"])
        elif op.op == "SLICE":
            starts = graph.operand_value(op, "start")
            own = [
                int(start) if size > 1 else 0 for start, size in zip(starts, new.shape(factors), strict=True)
            ]
            factors = new.slice(factors, own, shape)
        parts[result], replaced[id(op)] = (step, factors), build.operators
    graph.operators = [
        new for op in graph.operators for new in (replaced[id(op)] if id(op) in replaced else [op])
    ]
