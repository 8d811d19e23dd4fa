"""RESIZE as rows taken by constant index, axis by axis, and sums weighted by constants (clause 2.12.1)."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Graph

from .rewriting import Rewriting

HEIGHT, WIDTH = 1, 2


@dataclasses.dataclass(frozen=True)
class _Sampling:
    """Where each output position of an axis samples the input: `distance`/`unit` of the way from `first` to
    `second`."""

    axis: int
    unit: int
    first: np.ndarray
    second: np.ndarray
    distance: np.ndarray

    def nearest(self) -> np.ndarray:
        """The input position nearest to each output position; the later one of two."""
        return np.where(2 * self.distance >= self.unit, self.second, self.first)


def _sampling(graph: Graph, new: Rewriting, axis: int) -> _Sampling:
    operator, extent = new.operator, new.shape(new.operator.inputs[0])[axis]
    numerator, denominator = (
        int(value) for value in graph.operand_value(operator, "scale")[2 * axis - 2 : 2 * axis]
    )
    offset = int(graph.operand_value(operator, "offset")[axis - 1])
    count = new.shape(operator.outputs[0])[axis]
    index, distance = np.divmod(np.arange(count, dtype=np.int64) * denominator + offset, numerator)
    first, second = (np.clip(index + i, 0, extent - 1) for i in (0, 1))
    return _Sampling(axis, numerator, first, second, distance)


def resize(new: Rewriting) -> bool:
    """Rows along one axis, then along the other: first the one that leaves less to do for the second."""
    graph, operator = new.graph, new.operator
    n, ih, iw, channels = new.shape(operator.inputs[0])
    _, oh, ow, _ = new.shape(operator.outputs[0])
    height, width = (_sampling(graph, new, axis) for axis in (HEIGHT, WIDTH))
    data, output = operator.inputs[0], operator.outputs[0]
    if operator.attributes["mode"] == "NEAREST":
        if _repeated(new, height.nearest(), width.nearest()):
            return True
        # Along the height whole rows are moved, along the width single pixels: those as few as possible.
        order = (width, height) if ih <= oh else (height, width)
        for sampling in order:
            data = _taken(new, data, sampling.axis, sampling.nearest())
        new.add("IDENTITY", [data], new.shape(output), graph.tensors[output].dtype, output)
        return True
    order = (width, height) if ih * ow <= oh * iw else (height, width)
    data = _interpolated(new, data, order[0], DType.INT32)
    data = _interpolated(new, data, order[1], graph.tensors[output].dtype)
    new.add("IDENTITY", [data], new.shape(output), graph.tensors[output].dtype, output)
    return True


def _repeated(new: Rewriting, rows: np.ndarray, columns: np.ndarray) -> bool:
    """Every pixel a whole number of times: a TILE, which does both axes at once."""
    graph, (data, output) = new.graph, (new.operator.inputs[0], new.operator.outputs[0])
    n, ih, iw, channels = new.shape(data)
    times = [len(rows) // ih, len(columns) // iw]
    for extent, count, positions in ((ih, times[0], rows), (iw, times[1], columns)):
        if count == 0 or not np.array_equal(positions, np.arange(extent * count) // count):
            return False
    dtype = graph.tensors[output].dtype
    split = new.reshape(data, (n, ih, 1, iw, 1, channels))
    shape = (n, ih, times[0], iw, times[1], channels)
    tiled = new.add("TILE", [split, new.sizes([1, 1, times[0], 1, times[1], 1])], shape, dtype)
    new.reshape(tiled, new.shape(output), output)
    return True


def _taken(new: Rewriting, name: str, axis: int, positions: np.ndarray) -> str:
    """The tensor's elements at these positions along the height or width."""
    shape, dtype = new.shape(name), new.graph.tensors[name].dtype
    if np.array_equal(positions, np.arange(shape[axis])):
        return name
    batches, rest = int(np.prod(shape[:axis])), int(np.prod(shape[axis + 1 :]))
    rows = new.reshape(name, (batches, shape[axis], rest))
    # A view: the positions of one batch are those of all.
    indices = np.broadcast_to(positions.astype(np.int32), (batches, len(positions)))
    name = new.declare(indices.shape, DType.INT32, indices)
    taken = new.add("GATHER", [rows, name], (batches, len(positions), rest), dtype)
    return new.reshape(taken, (*shape[:axis], len(positions), *shape[axis + 1 :]))


def _interpolated(new: Rewriting, name: str, sampling: _Sampling, dtype: DType) -> str:
    """first * unit + (second - first) * distance along one axis: `unit` times the interpolated values."""
    first = _widened(new, _taken(new, name, sampling.axis, sampling.first), dtype)
    shape = new.shape(first)
    if sampling.unit > 1:
        scaled = _product(new, first, _along(new, np.array([sampling.unit]), sampling.axis), dtype)
    else:
        scaled = first
    if not sampling.distance.any():
        return scaled
    second = _widened(new, _taken(new, name, sampling.axis, sampling.second), dtype)
    step = new.add("SUB", [second, first], shape, dtype)
    part = _product(new, step, _along(new, sampling.distance, sampling.axis), dtype)
    return new.add("ADD", [scaled, part], shape, dtype)


def _widened(new: Rewriting, name: str, dtype: DType) -> str:
    if new.graph.tensors[name].dtype is dtype:
        return name
    return new.add("CAST", [name], new.shape(name), dtype)


def _along(new: Rewriting, values: np.ndarray, axis: int) -> str:
    """An int32 constant of rank 4 that differs along one axis."""
    return new.constant(values.reshape([-1 if i == axis else 1 for i in range(4)]), DType.INT32)


def _product(new: Rewriting, name: str, factor: str, dtype: DType) -> str:
    shift = new.constant(np.zeros(1, np.int64), DType.INT8)
    return new.add("MUL", [name, factor, shift], new.shape(name), dtype)
