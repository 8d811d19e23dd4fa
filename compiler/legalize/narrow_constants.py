"""int32 constants of few values that are added to products, as a causal mask is, become bytes that are scaled.

VECTOR takes a cycle for each byte that a lane loads, so an int32 takes four and a byte one. The bytes are as many as
the products, so that they join these on their way out of the array; a constant that is broadcast would need a layer of
its own, to which the sums go through memory.
"""

import math

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import (
    CONSTANT_GROWTH_FACTOR,
    CONSTANTS_SMALL_BYTES,
    NARROWED_LEAST_ELEMENTS,
)

_MULTIPLIER_BITS = 31
_LARGEST_STEP = (1 << _MULTIPLIER_BITS - 2) - 1
"""Beyond it a RESCALE would shift by less than 2."""


def narrow_constants(graph: Graph) -> Graph:
    """A graph with the same outputs; the argument is unchanged."""
    graph = graph.copy()
    index, done = graph.index(), list[Operator]()
    for operator in graph.operators:
        new = Rewriting(graph, operator)
        two = KIND.get(operator.op) is Kind.ELEMENTWISE and len(data_inputs(operator)) == 2
        done += new.operators if two and _narrowed(new, index) else [operator]
    graph.operators = done
    return graph


def _narrowed(new: Rewriting, index: GraphIndex) -> bool:
    graph, operator = new.graph, new.operator
    result, data = graph.tensors[operator.outputs[0]], data_inputs(operator)
    shape = result.shape
    for place, name in enumerate(data):
        constant, source = graph.const(name), _sums(graph, index, data[1 - place], shape)
        if constant is None or source is None or graph.tensors[name].dtype is not DType.INT32:
            continue
        elements = math.prod(shape)
        few = constant.size < NARROWED_LEAST_ELEMENTS or constant.shape[:-1] == (1,) * (constant.ndim - 1)
        if few or elements > max(CONSTANTS_SMALL_BYTES, CONSTANT_GROWTH_FACTOR * constant.nbytes):
            continue
        step = int(np.gcd.reduce(constant.reshape(-1).astype(np.int64)))
        narrow = constant.astype(np.int64) // max(step, 1)
        if not 0 < step <= _LARGEST_STEP or np.abs(narrow).max() > DType.INT8.max:
            continue
        whole = np.broadcast_to(narrow, shape).reshape(graph.tensors[source].shape)
        scaled = _scaled(new, new.constant(whole, DType.INT8), step)
        operands = [*([source, scaled] if place else [scaled, source]), *operator.inputs[2:]]
        made = new.add(operator.op, operands, whole.shape, result.dtype, **operator.attributes)
        new.reshape(made, shape, operator.outputs[0])
        return True
    return False


def _sums(graph: Graph, index: GraphIndex, name: str, shape: tuple[int, ...]) -> str | None:
    """The products that an operand of this shape is, under the shape in which the array makes them; None where it is
    something else, or others read it, too."""
    tensor = graph.tensors[name]
    if tensor.shape != shape:
        return None
    while len(index.consumers(name)) == 1 and name not in graph.outputs:
        producer = index.producer(name)
        if producer is not None and KIND.get(producer.op) is Kind.ARRAY:
            return name if tensor.dtype is DType.INT32 else None
        if producer is None or producer.op != "RESHAPE":
            return None
        name = producer.inputs[0]
    return None


def _scaled(new: Rewriting, narrow: str, step: int) -> str:
    """The bytes times `step`, int32: a RESCALE, in which nothing is rounded."""
    shift = _MULTIPLIER_BITS - step.bit_length()
    operands = [
        narrow,
        new.constant(np.array([step << shift]), DType.INT32),
        new.constant(np.array([shift]), DType.INT8),
        new.zeros(1, DType.INT8),
        new.zeros(1, DType.INT32),
    ]
    return new.add(
        "RESCALE",
        operands,
        new.shape(narrow),
        DType.INT32,
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=False,
        input_unsigned=False,
        output_unsigned=False,
    )
