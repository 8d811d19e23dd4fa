"""The tensors that an ONNX model holds: initializers and Constant nodes of its graph, subgraphs and functions."""

from collections.abc import Iterator
from typing import Any

SCALED_SUFFIX, SCALES_SUFFIX = "/scaled", "/channel_scales"
"""Suffixes of the two tensors whose product a tensor is that was scaled per output channel."""


def model_tensors(model: Any) -> dict[str, Any]:
    """The TensorProtos of a ModelProto that are weights, by name, in the order of the file.

    An initializer has its own name, the `value` of a Constant node that of the node's output. Two branches of an If may
    use one name: the second tensor of the name `w` is called `w#2`, and so on, on both sides of a bitstream.
    """
    found: dict[str, Any] = {}
    for name, tensor in _named(model):
        unique, number = name, 1
        while unique in found:
            number += 1
            unique = f"{name}#{number}"
        found[unique] = tensor
    return found


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    # The graph's initializers first: a name that occurs again is one of a subgraph's.
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: Any) -> Iterator[tuple[str, Any]]:
    for initializer in graph.initializer:
        yield initializer.name, initializer
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Any) -> Iterator[tuple[str, Any]]:
    for node in nodes:
        constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1
        for attribute in node.attribute:
            if constant and attribute.name == "value" and attribute.HasField("t"):
                yield node.output[0], attribute.t
            for inner in (attribute.g, *attribute.graphs):
                yield from _of_graph(inner)
