"""Bytes that reductions and other operators read as wider integers are made wider where they are read.

A softmax's RESCALE to int32 is read by the maximum and by the subtraction. Kept in memory it takes four words where the
bytes take one, to be written and to be read twice; made again in each reader's micro-program it takes one step. The
maximum is that of the bytes, made wider: a RESCALE keeps their order.
"""

import dataclasses

from tosaic.compiler.ir import Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.ir.building import fresh_name
from tosaic.compiler.machine import ELEMENT, KIND, Kind


def widen_at_readers(graph: Graph) -> Graph:
    """A graph with the same outputs; operators that nobody reads any more are left in it. The argument is unchanged."""
    graph = graph.copy()
    graph.operators = _behind_extremes(graph, graph.index())
    graph.operators = _by_each_reduction(graph, graph.index())
    return graph


def _widens(graph: Graph, operator: Operator | None) -> bool:
    """Whether an operator does the same with all elements of one tensor, and makes them wider."""
    if operator is None or operator.op not in ("RESCALE", "CAST") or operator.attributes.get("per_channel"):
        return False
    source, result = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
    if source.data is not None or not {source.dtype, result.dtype} <= ELEMENT.keys():
        return False
    return ELEMENT[source.dtype].bytes < ELEMENT[result.dtype].bytes


# --- maxima and minima


def _behind_extremes(graph: Graph, index: GraphIndex) -> list[Operator]:
    """The operators, in which maxima and minima are taken before elements are made wider."""
    done = list[Operator]()
    for operator in graph.operators:
        widening = index.producer(operator.inputs[0]) if operator.inputs else None
        extreme = operator.op in ("REDUCE_MAX", "REDUCE_MIN")
        if not extreme or widening is None or not _keeps_order(graph, widening):
            done.append(operator)
            continue
        source, (result,) = widening.inputs[0], operator.outputs
        narrow = _another(graph, result, source)
        done.append(Operator(operator.op, [source], [narrow], dict(operator.attributes), operator.name))
        inputs = [narrow, *widening.inputs[1:]]
        done.append(Operator(widening.op, inputs, [result], dict(widening.attributes), widening.name))
    return done


def _keeps_order(graph: Graph, operator: Operator) -> bool:
    """Whether the largest result is that of the largest element: scales are not negative, and signs stay."""
    if not _widens(graph, operator) or operator.op != "RESCALE":
        return False
    multiplier = graph.const(operator.inputs[1])
    signed = not (operator.attributes.get("input_unsigned") or operator.attributes.get("output_unsigned"))
    return signed and multiplier is not None and int(multiplier.min()) >= 0


# --- copies


def _by_each_reduction(graph: Graph, index: GraphIndex) -> list[Operator]:
    """The operators, with one that makes elements wider for each reduction: what reads the same elements without
    reducing them shares a layer, in which they are made wider once."""
    done = list[Operator]()
    for operator in graph.operators:
        done.append(operator)
        if not _widens(graph, operator) or operator.outputs[0] in graph.outputs:
            continue
        (name,) = operator.outputs
        readers = index.consumers(name)
        if all(_takes(graph, reader, name) for reader in readers):
            reductions = [reader for reader in readers if _is_reduced(graph, index, reader)]
            alone = len(reductions) == len(readers)
            done += [_again(graph, operator, reader) for reader in (reductions[1:] if alone else reductions)]
    return done


def _takes(graph: Graph, reader: Operator, name: str) -> bool:
    """Whether a reader's layer can have the operator in its micro-program: it works on the same elements."""
    if name not in data_inputs(reader):
        return False
    if KIND.get(reader.op) is Kind.REDUCTION:
        return True
    shape = graph.tensors[name].shape
    return KIND.get(reader.op) is Kind.ELEMENTWISE and graph.tensors[reader.outputs[0]].shape == shape


def _is_reduced(graph: Graph, index: GraphIndex, reader: Operator) -> bool:
    """Whether a reader is a reduction, or elementwise operators that nobody else reads lead from it to one: a layer
    that other readers have to wait for."""
    while KIND.get(reader.op) is Kind.ELEMENTWISE:
        (result,) = reader.outputs
        following = index.consumers(result)
        if len(following) != 1 or result in graph.outputs or not _takes(graph, following[0], result):
            return False
        reader = following[0]
    return KIND.get(reader.op) is Kind.REDUCTION


def _again(graph: Graph, operator: Operator, reader: Operator) -> Operator:
    """The operator once more, for one reader."""
    (name,) = operator.outputs
    copy = _another(graph, name, name)
    reader.inputs = [copy if each == name else each for each in reader.inputs]
    return Operator(operator.op, list(operator.inputs), [copy], dict(operator.attributes), operator.name)


def _another(graph: Graph, like: str, elements: str) -> str:
    """The name of a new tensor of the shape of one tensor with elements as another one has."""
    name = fresh_name(graph, f"{like}'")
    graph.tensors[name] = dataclasses.replace(
        graph.tensors[like], name=name, dtype=graph.tensors[elements].dtype
    )
    return name
