"""A convolution whose channels are read in parts becomes a convolution for each part.

A gate multiplies one half of the channels, behind a tanh, by the other, behind a sigmoid. Each half's curve, and the
product, are then on the way out of a convolution of its own, in cycles in which the array computes. Behind one
convolution of all channels they are layers of their own, and what lies between is written and read again.
"""

import math
from collections.abc import Sequence

from tosaic.compiler.cut.boxes import Box, NotCut, shape_of, whole
from tosaic.compiler.cut.cut_operator import CutOperator, cut_operator
from tosaic.compiler.cut.rules import numbers
from tosaic.compiler.ir import Graph, GraphIndex, Operator, data_inputs
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.machine_numbers import PARTED_IMAGE_AM_PART, PARTED_LEAST_ELEMENTS
from tosaic.hw.config import Config


def part_convolutions(graph: Graph, config: Config) -> Graph:
    """A graph with the same outputs; the argument is unchanged."""
    graph = graph.copy()
    index, gone = graph.index(), set[int]()
    parts: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        chain = _chain(graph, index, operator) if operator.op == "CONV2D" else []
        readers = index.consumers(chain[-1].outputs[0]) if chain else []
        if not readers or not _worth_it(graph, index, chain, readers, config):
            continue
        cuts = [_cuts(graph, chain, _box(graph, reader)) for reader in readers]
        if not all(cuts):
            continue
        gone |= {id(each) for each in chain}
        for reader, found in zip(readers, cuts, strict=True):
            parts[id(reader)] = _part(graph, reader, chain, found)
    graph.operators = [
        each
        for operator in graph.operators
        if id(operator) not in gone
        for each in parts.get(id(operator), [operator])
    ]
    return graph


def _chain(graph: Graph, index: GraphIndex, convolution: Operator) -> list[Operator]:
    """The convolution and what follows it, each read by the next alone, up to what SLICEs read."""
    chain = [convolution]
    while True:
        (name,) = chain[-1].outputs
        readers = index.consumers(name)
        if name in graph.outputs or not readers:
            return []
        if all(reader.op == "SLICE" for reader in readers):
            return chain
        (reader, *others) = readers
        follows = reader.op == "RESHAPE" or KIND.get(reader.op) is Kind.ELEMENTWISE
        if others or not follows or len(reader.outputs) != 1 or data_inputs(reader) != [name]:
            return []
        chain.append(reader)


def _worth_it(
    graph: Graph, index: GraphIndex, chain: Sequence[Operator], readers: Sequence[Operator], config: Config
) -> bool:
    """Whether the parts are whole tiles of channels that elementwise operators read, of an image that comes once."""
    boxes = [_box(graph, reader) for reader in readers]
    image, weights = (graph.tensors[name] for name in chain[0].inputs[:2])
    shape = graph.tensors[chain[-1].outputs[0]].shape
    ends = [last for box in sorted(boxes, key=lambda box: box[-1]) for last in box[-1]]
    partition = ends[0] == 0 and ends[-1] == shape[-1] and ends[1:-1:2] == ends[2::2]
    if len(boxes) < 2 or not partition or any(box[:-1] != whole(shape)[:-1] for box in boxes):
        return False
    if any(end % config.columns for end in ends) or weights.data is None:
        return False
    if math.prod(shape) < PARTED_LEAST_ELEMENTS * len(boxes):
        return False
    if math.prod(image.shape) > config.am_bytes // PARTED_IMAGE_AM_PART:
        return False
    return all(_joins(graph, index, reader.outputs[0]) for reader in readers)


def _joins(graph: Graph, index: GraphIndex, name: str) -> bool:
    """Whether what reads a part works on its elements one by one, and nothing else is to see it."""
    readers = index.consumers(name)
    return (
        len(readers) == 1
        and name not in graph.outputs
        and KIND.get(readers[0].op) is Kind.ELEMENTWISE
        and graph.tensors[readers[0].outputs[0]].shape == graph.tensors[name].shape
    )


def _box(graph: Graph, part: Operator) -> Box:
    start = numbers(graph, part, 1)
    assert start is not None
    sizes = graph.tensors[part.outputs[0]].shape
    return tuple((first, first + size) for first, size in zip(start, sizes, strict=True))


def _cuts(graph: Graph, chain: Sequence[Operator], box: Box) -> list[CutOperator]:
    """How each operator computes its part of the box of the last one's result; empty where one cannot."""
    cuts = list[CutOperator]()
    for operator in reversed(chain):
        cut = cut_operator(graph, operator, box)
        if isinstance(cut, NotCut):
            return []
        cuts.append(cut)
        box = cut.operands.get(0, whole(graph.tensors[operator.inputs[0]].shape))
    return cuts[::-1] if box == whole(graph.tensors[chain[0].inputs[0]].shape) else []


def _part(
    graph: Graph, part: Operator, chain: Sequence[Operator], cuts: Sequence[CutOperator]
) -> list[Operator]:
    """The operators that make a part of the channels."""
    new, made = Rewriting(graph, part), chain[0].inputs[0]
    for operator, cut in zip(chain, cuts, strict=True):
        operands = [made]
        for number, name in enumerate(operator.inputs[1:], 1):
            if number in cut.constants:
                operands.append(new.sizes(cut.constants[number]))
            else:
                operands.append(new.box(name, cut.operands.get(number, whole(new.shape(name)))))
        (result,) = operator.outputs
        last = operator is chain[-1]
        attributes = {**operator.attributes, **cut.attributes}
        made = new.build.add(
            operator.op,
            operands,
            dtype=graph.tensors[result].dtype,
            output=part.outputs[0] if last else None,
            **attributes,
        )
        new.operators[-1].name = operator.name
    assert new.shape(made) == shape_of(_box(graph, part))
    return new.operators
