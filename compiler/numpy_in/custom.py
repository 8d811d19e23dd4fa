"""CUSTOM operators whose kernels are traced: TOSA's operators in their places."""

import inspect
from typing import Any

import numpy as np

from tosaic.compiler.ir import Graph, GraphBuilder, Operator
from tosaic.compiler.ir.custom_kernels import RegisteredKernel, checked_results, registered
from tosaic.compiler.numpy_in.forms import BOOL, NARROW, Form
from tosaic.compiler.numpy_in.functions import difference
from tosaic.compiler.numpy_in.namespace import Replacer
from tosaic.compiler.numpy_in.recording import Recorder
from tosaic.compiler.numpy_in.tracer import TracedArray, lift
from tosaic.errors import Error, ModelError, TraceError, UnsupportedError, in_words


def with_traced_kernels(graph: Graph) -> Graph:
    """A graph with the same outputs in which no CUSTOM operator is left.

    UnsupportedError for one whose kernel is not registered with `traced=True`, or cannot be traced; ModelError for
    results that the graph does not declare so.
    """
    first, second = (_replaced(graph.copy()) for _ in range(2))
    found = difference(first, second)
    if found:
        raise TraceError(
            f"a kernel is not the same when it is traced again ({found}): it must be a function of its arguments alone"
        )
    return first


def _replaced(graph: Graph) -> Graph:
    for part in list(graph.walk()):
        operators: list[Operator] = []
        for operator in part.operators:
            operators += _operators_of(part, operator) if operator.op == "CUSTOM" else [operator]
        part.operators = operators
    return graph


def _operators_of(graph: Graph, operator: Operator) -> list[Operator]:
    """What takes the place of a CUSTOM operator; new tensors stand in the graph."""
    name, domain, kernel = registered(operator)
    if kernel is None or not kernel.traced:
        made = ", ".join(str(graph.tensors[each]) for each in operator.outputs)
        raise UnsupportedError(
            f"{operator}: CUSTOM ({made}) does not run on the accelerator: {name!r} of domain {domain!r} has no kernel "
            "with tosaic.register_custom(..., traced=True); register one, replace it, or use the target golden"
        )
    recorder = Recorder(f"{name}_", builder=GraphBuilder.replacing(graph, operator))
    results = [graph.tensors[each] for each in operator.outputs]
    arrays = _traced(recorder, graph, operator, kernel)
    problem = checked_results(operator, [(each.shape, each.dtype) for each in arrays], results)
    if problem:
        raise ModelError(problem)
    for array, result in zip(arrays, results, strict=True):
        form = array.port_form
        tensor = array.wide if form is Form.WIDE else array.tensor(form)
        recorder.build.add("IDENTITY", [recorder.reshape(tensor, result.shape)], output=result.name)
    return recorder.build.operators


def _traced(
    recorder: Recorder, graph: Graph, operator: Operator, kernel: RegisteredKernel
) -> list[TracedArray]:
    """The kernel's results, of traced operands."""
    operands = [_operand(recorder, graph, name) for name in operator.inputs]
    results = [graph.tensors[each] for each in operator.outputs]
    attributes = operator.attributes.get("implementation_attrs", b"")
    function: Any = inspect.unwrap(kernel.compute)
    try:
        made = Replacer(recorder).function(function)(operands, attributes, results)
        return [lift(recorder, each) for each in made]
    except TraceError as error:
        error.args = (f"{operator}: its kernel cannot be traced: {error}",)
        raise
    except Error:
        raise
    except Exception as error:
        raise UnsupportedError(
            f"{operator}: its kernel fails when it is traced: {in_words(error)}"
        ) from error


def _operand(recorder: Recorder, graph: Graph, name: str) -> TracedArray:
    tensor = graph.tensors[name]
    dtype = np.dtype(tensor.dtype.numpy)
    if tensor.data is not None:
        return lift(recorder, tensor.data)
    form = Form.BOOL if dtype == BOOL else Form.NARROW if dtype in NARROW else Form.WIDE
    return TracedArray(recorder, tensor.shape, dtype, forms={form: name})
