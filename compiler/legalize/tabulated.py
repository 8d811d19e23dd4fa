"""Chains of TABLEs on a tensor of few different values: one GATHER from a table of what the chain makes of each value.

TFLite's exponential of a softmax looks int16 numbers up in four tables of 513 entries and adds the results shifted. But
what it looks up is the difference of two int8 numbers. VECTOR holds one table at a time, and to load it takes a cycle
for each word: for a few numbers, that is nearly all the time.
"""

import math

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.curves import Curve, curves
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import CHAIN_LEAST_TABLES, CHAIN_MOST_ELEMENTS


def tabulate(graph: Graph) -> Graph:
    """A graph with the same outputs; operators that nobody reads any more are left in it."""
    found = curves(graph)
    if not any(operator.op == "TABLE" for operator in graph.operators):
        return graph
    graph = graph.copy()
    index, done = graph.index(), list[Operator]()
    tables: dict[str, frozenset[str]] = {}
    """The TABLEs on the way to each tensor from what is in memory: its curve's origin, or a GATHER's result."""
    for operator in graph.operators:
        name = operator.outputs[0] if operator.outputs else ""
        curve = found.get(name)
        if curve is None or curve.origin == name:
            done.append(operator)
            continue
        tables[name] = frozenset().union(*(tables.get(each, ()) for each in operator.inputs))
        if operator.op == "TABLE":
            tables[name] |= {name}
        if len(tables[name]) < CHAIN_LEAST_TABLES or not _wanted(graph, index, found, name):
            done.append(operator)
            continue
        new = Rewriting(graph, operator)
        _look_up(new, curve)
        done += new.operators
        tables[name] = frozenset()
    graph.operators = done
    return graph


def _wanted(graph: Graph, index: GraphIndex, found: dict[str, Curve], name: str) -> bool:
    """Whether a tensor is read by more than further steps of its own chain, and small."""
    if math.prod(graph.tensors[name].shape) > CHAIN_MOST_ELEMENTS:
        return False
    origin = found[name].origin
    after = [found.get(output) for reader in index.consumers(name) for output in reader.outputs]
    return name in graph.outputs or any(curve is None or curve.origin != origin for curve in after)


def _look_up(new: Rewriting, curve: Curve) -> None:
    output = new.operator.outputs[0]
    shape, target = new.shape(output), new.dtype(output)
    count = math.prod(shape)
    places = curve.origin
    if new.dtype(places) is not DType.INT32:
        places = new.op("CAST", places, dtype=DType.INT32)
    if curve.low:
        rank = len(new.shape(places))
        first = new.constant(np.full((1,) * rank, -curve.low), DType.INT32)
        places = new.add("ADD", [places, first], new.shape(places), DType.INT32)
    table = new.constant(curve.values.reshape(1, -1, 1), target)
    rows = new.add("GATHER", [table, new.reshape(places, (1, count))], (1, count, 1), target)
    new.reshape(rows, shape, output)
