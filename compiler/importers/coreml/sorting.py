"""Largest elements and orders."""

from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.sorting import ranked
from tosaic.compiler.ir import DType


@handles("topK")
def top_k(node: CoreMlNode) -> list[CoreMlValue]:
    """The K largest (or smallest) elements and their indices; among equals the first goes first."""
    count = node.whole_numbers(1)[0] if len(node.inputs) == 2 else int(node.params.K)
    axis = node.axis(node.params.axis)
    node.require(0 < count <= node.shape()[axis], f"K is {count}, of {node.shape()[axis]}")
    values, indices = _ranked(node, axis, count, descending=not node.params.useBottomK)
    return [node.out(values), node.out(indices)]


@handles("argSort")
def arg_sort(node: CoreMlNode) -> CoreMlValue:
    """The indices that sort an axis; among equals the first goes first."""
    axis = node.axis(node.params.axis)
    return node.out(_ranked(node, axis, node.shape()[axis], node.params.descending)[1])


def _ranked(node: CoreMlNode, axis: int, count: int, descending: bool) -> tuple[str, str]:
    """The first `count` values of the sorted axis, and their indices as floats."""
    values, indices = ranked(node.low, node.x(), axis, count, descending)
    return values, node.low.cast(indices, DType.FP32)
