"""Lowers operations on tensor shapes (4.5)."""

from tosaic.compiler.importers.nnef.graph import TensorValue
from tosaic.compiler.importers.nnef.tosa.node import NnefNode
from tosaic.compiler.importers.nnef.tosa.registry import handles


@handles("reshape", "squeeze", "unsqueeze")
def reshape(node: NnefNode) -> str:
    """The expander knows the shape."""
    return node.low.reshape(node.tensor("input"), node.result.shape)


@handles("transpose")
def transpose(node: NnefNode) -> str:
    """Dimensions that `axes` leaves out stay."""
    x = node.tensor("input")
    return node.low.transpose(x, [*node["axes"], *range(len(node["axes"]), node.low.rank(x))])


@handles("split")
def split(node: NnefNode) -> list[str]:
    """A slice for each part."""
    (parts,) = node.operation.results.values()
    assert isinstance(parts, list)
    value, axis, start, found = node.tensor("value"), node["axis"], 0, []
    for part in parts:
        found.append(node.low.slice_axis(value, axis, start, part.shape[axis]))
        start += part.shape[axis]
    return found


@handles("unstack")
def unstack(node: NnefNode) -> list[str]:
    """A slice for each part, without the dimension."""
    (parts,) = node.operation.results.values()
    assert isinstance(parts, list)
    low, value, axis = node.low, node.tensor("value"), node["axis"]
    return [
        low.reshape(low.slice_axis(value, axis, index, 1), part.shape) for index, part in enumerate(parts)
    ]


@handles("concat")
def concat(node: NnefNode) -> str:
    """Tensors one after the other."""
    return node.low.concat(node.tensors("values"), node["axis"])


@handles("stack")
def stack(node: NnefNode) -> str:
    """Tensors along a dimension of their own."""
    low, axis, parts = node.low, node["axis"], node.tensors("values")
    shape = low.shape(parts[0])
    line = (*shape[:axis], 1, *shape[axis:])
    return low.concat([low.reshape(part, line) for part in parts], axis)


@handles("slice")
def slice_(node: NnefNode) -> str:
    """Negative bounds count from the end, and an end of 0 is the end."""
    low, x = node.low, node.tensor("input")
    starts = [0] * low.rank(x)
    for axis, begin in zip(node["axes"], node["begin"], strict=True):
        starts[axis] = begin + low.shape(x)[axis] if begin < 0 else begin
    return low.slice(x, starts, node.result.shape)


@handles("update")
def update(node: NnefNode) -> str:
    """The new value; the importer makes it an output."""
    assert isinstance(node["variable"], TensorValue)
    return node.tensor("value")
