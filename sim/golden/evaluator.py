"""Evaluates a whole graph, control flow included."""

import contextvars
import itertools
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from tosaic.compiler.ir import Graph, Operator, Tensor, is_representable
from tosaic.errors import InputError, ModelError, UnpredictableError
from tosaic.sim.golden.custom import evaluate_custom
from tosaic.sim.golden.kernels import evaluate_operator
from tosaic.sim.golden.requirements import strictly

OnOperator = Callable[[Operator, int, int], None]
_most_turns: contextvars.ContextVar[int | None] = contextvars.ContextVar("most_turns", default=None)


def evaluate(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    keep: bool = False,
    on_operator: OnOperator | None = None,
    strict: bool = False,
    most_turns: int | None = None,
) -> dict[str, np.ndarray]:
    """Compute the outputs of `graph` for one set of inputs.

    `inputs` maps every graph input to an array of its shape and `dtype.numpy`. Returns the graph outputs by
    name; with `keep` every tensor that an operator of this graph wrote (not those inside branches of
    control-flow operators) and the graph outputs. INT48 is held in int64, INT4 in int8, BF16 and the 8-bit floats
    in float32. The outputs are
    the caller's own copies; kept tensors may share memory with the inputs and with constants.

    `on_operator(operator, index, total)` is called before each operator of the outermost graph.

    With `strict` an input that breaks a REQUIRE of an integer operator raises UnpredictableError, and so does a
    WHILE_LOOP of more than `most_turns` turns: it may be one that never ends.

    Raises InputError for a missing, unknown or ill-typed input, UnsupportedError for an operator without a
    kernel, and ModelError when a result does not have the shape that the graph declares. It expects
    a graph that passes `tosaic.compiler.ir.validate` and repeats none of those checks.
    """
    for name in inputs:
        if name not in graph.inputs:
            known = ", ".join(graph.inputs) or "none"
            raise InputError(f"graph {graph.name!r} has no input {name!r}; its inputs are: {known}")
    values = {name: _checked_input(graph, name, inputs) for name in graph.inputs}
    before = _most_turns.set(most_turns)
    try:
        with strictly(strict):
            results = _run(graph, values, keep, on_operator)
    finally:
        _most_turns.reset(before)
    for name in graph.outputs:
        results[name] = np.array(results[name], order="C")
    return results


def _checked_input(graph: Graph, name: str, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    tensor = graph.tensor(name)
    if name not in inputs:
        raise InputError(f"input {tensor} is missing")
    value = np.asarray(inputs[name])
    if value.shape != tensor.shape:
        raise InputError(f"input {tensor}: the array given has shape {list(value.shape)}")
    if value.dtype != tensor.dtype.numpy:
        raise InputError(f"input {tensor}: the array given is {value.dtype}, not {tensor.dtype.numpy}")
    if (
        tensor.dtype.is_integer
        and value.size
        and not (tensor.dtype.min <= value.min() and value.max() <= tensor.dtype.max)
    ):
        raise InputError(f"input {tensor}: values must lie in {tensor.dtype.min}..{tensor.dtype.max}")
    if not is_representable(value, tensor.dtype):
        raise InputError(
            f"input {tensor}: not every value is a {tensor.dtype.spelling}; "
            "round the array first with tosaic.compiler.ir.nearest"
        )
    return value


def _run(
    graph: Graph, values: dict[str, np.ndarray], keep: bool, on_operator: OnOperator | None
) -> dict[str, np.ndarray]:
    """Run the operators in order on `values`, which holds the graph inputs and is used up."""
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    kept: dict[str, np.ndarray] = {}
    for index, operator in enumerate(graph.operators):
        if on_operator is not None:
            on_operator(operator, index, len(graph.operators))
        operands = [_value(graph, name, values, operator) for name in operator.inputs]
        for name, result in zip(operator.outputs, _evaluate(graph, operator, operands), strict=True):
            values[name] = _checked_result(graph.tensor(name), operator, result)
            if keep:
                kept[name] = values[name]
        for name in operator.inputs:
            readers[name] -= 1
            if readers[name] == 0:
                values.pop(name, None)
    outputs = {name: _value(graph, name, values, None) for name in graph.outputs}
    return {**kept, **outputs}


def _value(graph: Graph, name: str, values: Mapping[str, np.ndarray], reader: Operator | None) -> np.ndarray:
    if name in values:
        return values[name]
    data = graph.tensor(name).data
    if data is None:
        where = f"{reader} reads it" if reader else "it is a graph output"
        raise ModelError(f"tensor {graph.tensor(name)} has no value when {where}; order the operators")
    return data


def _checked_result(tensor: Tensor, operator: Operator, result: np.ndarray) -> np.ndarray:
    if result.shape != tensor.shape:
        raise ModelError(f"{operator}: the result has shape {list(result.shape)}, its tensor is {tensor}")
    return result


def _evaluate(graph: Graph, operator: Operator, operands: list[np.ndarray]) -> list[np.ndarray]:
    if operator.op == "COND_IF":
        condition, *arguments = operands
        branch = "then_graph" if condition.reshape(-1)[0] else "else_graph"
        return _call(graph, operator, branch, arguments)
    if operator.op == "WHILE_LOOP":
        state, most = operands, _most_turns.get()
        for turn in itertools.count():
            if not _call(graph, operator, "cond_graph", state)[0].reshape(-1)[0]:
                break
            if turn == most:
                raise UnpredictableError(f"{operator}: more than {most} turns; does it end?")
            state = _call(graph, operator, "body_graph", state)
        return state
    if operator.op == "CUSTOM":
        return evaluate_custom(operator, operands, [graph.tensor(name) for name in operator.outputs])
    out_dtypes = [graph.tensor(name).dtype for name in operator.outputs]
    return evaluate_operator(operator.op, operands, operator.attributes, out_dtypes, label=str(operator))


def _call(graph: Graph, operator: Operator, attribute: str, arguments: list[np.ndarray]) -> list[np.ndarray]:
    """Evaluate the subgraph that `attribute` names (TOSA 0.30 section 2.16)."""
    name = operator.attributes.get(attribute)
    if name not in graph.subgraphs:
        raise ModelError(f"{operator}: {attribute} names the graph {name!r}, which does not exist")
    subgraph = graph.subgraphs[name]
    if len(arguments) != len(subgraph.inputs):
        raise ModelError(
            f"{operator}: {attribute} {name!r} takes {len(subgraph.inputs)} inputs, not {len(arguments)}"
        )
    results = _run(subgraph, dict(zip(subgraph.inputs, arguments, strict=True)), False, None)
    return [results[output] for output in subgraph.outputs]
