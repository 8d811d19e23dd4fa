"""Largest elements and orders."""

from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.sorting import ranked
from tosaic.compiler.ir import DType


@handles("topK")
def top_k(layer: Layer) -> list[Blob]:
    """The K largest (or smallest) elements and their indices; among equals the first goes first."""
    count = layer.whole_numbers(1)[0] if len(layer.inputs) == 2 else int(layer.params.K)
    axis = layer.axis(layer.params.axis)
    layer.require(0 < count <= layer.shape()[axis], f"K is {count}, of {layer.shape()[axis]}")
    values, indices = _ranked(layer, axis, count, descending=not layer.params.useBottomK)
    return [layer.out(values), layer.out(indices)]


@handles("argSort")
def arg_sort(layer: Layer) -> Blob:
    """The indices that sort an axis; among equals the first goes first."""
    axis = layer.axis(layer.params.axis)
    return layer.out(_ranked(layer, axis, layer.shape()[axis], layer.params.descending)[1])


def _ranked(layer: Layer, axis: int, count: int, descending: bool) -> tuple[str, str]:
    """The first `count` values of the sorted axis, and their indices as floats."""
    values, indices = ranked(layer.low, layer.x(), axis, count, descending)
    return values, layer.low.cast(indices, DType.FP32)
