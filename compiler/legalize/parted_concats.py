"""What reads a CONCAT of parts of one tensor element by element is done for each part.

A rotary embedding turns the halves of each head: -b beside a, times sines, added to a and b times cosines. What makes
the halves and what reads them would be layers with the CONCAT between them. For each half it is one layer, that reads
both where they lie; the CONCAT then puts the bytes together that are left of it.
"""

import math
from collections.abc import Sequence

from tosaic.compiler.cut.boxes import Box, NotCut
from tosaic.compiler.cut.cut_operator import CutOperator, cut_operator
from tosaic.compiler.ir import Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.normalise import live_operators
from tosaic.compiler.legalize.part_rewriting import PartRewriting
from tosaic.compiler.machine import ELEMENT, KIND, Kind


def part_concats(graph: Graph) -> Graph:
    """A graph with the same outputs; the argument is unchanged."""
    graph = graph.copy()
    index, changed = graph.index(), dict[int, list[Operator]]()
    for operator in graph.operators:
        chain = _chain(graph, index, operator) if _is_of_parts(graph, index, operator) else []
        boxes = _boxes(graph, operator) if chain else []
        cuts = [_cuts(graph, chain, box) for box in boxes]
        if cuts and all(cuts):
            changed |= {id(each): [] for each in (operator, *chain)}
            changed[id(chain[-1])] = _parted(graph, index, operator, chain, cuts)
    if not changed:
        return graph
    graph.operators = [new for old in graph.operators for new in changed.get(id(old), [old])]
    graph.operators = live_operators(graph)
    return graph


def _is_of_parts(graph: Graph, index: GraphIndex, operator: Operator) -> bool:
    """Whether an operator is a CONCAT of SLICEs of one tensor, and of what elementwise operators, that nobody else
    reads, make of such; one at least is made so."""
    if operator.op != "CONCAT" or operator.outputs[0] in graph.outputs:
        return False
    sources, made = set[str](), False
    for name in operator.inputs:
        reader, producer = operator, index.producer(name)
        while producer is not None and KIND.get(producer.op) is Kind.ELEMENTWISE:
            operands = data_inputs(producer)
            if len(operands) != 1 or index.consumers(name) != [reader] or name in graph.outputs:
                return False
            made, reader, name = True, producer, operands[0]
            producer = index.producer(name)
        if producer is None or producer.op != "SLICE":
            return False
        sources.add(producer.inputs[0])
    return made and len(sources) == 1


def _chain(graph: Graph, index: GraphIndex, concat: Operator) -> list[Operator]:
    """The elementwise operators behind a CONCAT, each read by the next one alone, up to the last one of which the
    elements are no wider than before and than all others."""
    chain, best = list[Operator](), 0
    least = ELEMENT[graph.tensors[concat.outputs[0]].dtype].bytes
    (name,) = concat.outputs
    while name not in graph.outputs and len(readers := index.consumers(name)) == 1:
        (reader,) = readers
        if KIND.get(reader.op) is not Kind.ELEMENTWISE or data_inputs(reader).count(name) != 1:
            break
        result = graph.tensors[reader.outputs[0]]
        if result.shape != graph.tensors[name].shape or result.dtype not in ELEMENT:
            break
        chain.append(reader)
        if ELEMENT[result.dtype].bytes <= least:
            least, best = ELEMENT[result.dtype].bytes, len(chain)
        name = result.name
    return chain[:best]


def _boxes(graph: Graph, concat: Operator) -> list[Box]:
    """Where each operand lies in the result."""
    axis, first, found = concat.attributes["axis"], 0, list[Box]()
    for name in concat.inputs:
        shape = graph.tensors[name].shape
        last = first + shape[axis]
        found.append(tuple((first, last) if i == axis else (0, size) for i, size in enumerate(shape)))
        first = last
    return found if all(math.prod(last - first for first, last in box) for box in found) else []


def _cuts(graph: Graph, chain: Sequence[Operator], box: Box) -> list[CutOperator]:
    """How each operator makes a part of its result; empty where one cannot."""
    cuts = list[CutOperator]()
    for operator in chain:
        cut = cut_operator(graph, operator, box)
        if isinstance(cut, NotCut):
            return []
        cuts.append(cut)
    return cuts


def _parted(
    graph: Graph,
    index: GraphIndex,
    concat: Operator,
    chain: Sequence[Operator],
    cuts: Sequence[Sequence[CutOperator]],
) -> list[Operator]:
    """The operators in place of a CONCAT and of those behind it."""
    new, parts = PartRewriting(graph, chain[-1], index), list[str]()
    for made, steps in zip(concat.inputs, cuts, strict=True):
        (before,) = concat.outputs
        for operator, cut in zip(chain, steps, strict=True):
            made = new.part(operator, cut, {before: made})
            (before,) = operator.outputs
        parts.append(made)
    new.build.add(
        "CONCAT",
        parts,
        dtype=new.dtype(parts[0]),
        output=chain[-1].outputs[0],
        axis=concat.attributes["axis"],
    )
    new.operators[-1].name = concat.name
    return new.operators
