"""RESIZE as rows taken by constant index, axis by axis, and sums weighted by constants (clause 2.12.1)."""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import RESIZE_WIDE_PIXEL_CHANNELS

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
        if channels >= RESIZE_WIDE_PIXEL_CHANNELS and _repeated(new, height.nearest(), width.nearest()):
            return True
        # Along the height whole rows are moved, along the width single pixels: those as few as possible.
        order = (width, height) if ih <= oh else (height, width)
        for sampling in order:
            lines = _taken(new, _lines(new, data, sampling.axis), sampling.nearest())
            data = _image(new, lines, data, sampling.axis)
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


def _lines(new: Rewriting, name: str, axis: int) -> str:
    """An image as [batches, extent, rest], where the extent is the height or the width: no RESHAPE then parts the
    arithmetic from what it reads."""
    shape = new.shape(name)
    return new.reshape(name, (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])))


def _image(new: Rewriting, name: str, like: str, axis: int) -> str:
    """The image again that `_lines` made of `like`, with another extent."""
    shape = list(new.shape(like))
    shape[axis] = new.shape(name)[1]
    return new.reshape(name, tuple(shape))


def _taken(new: Rewriting, name: str, positions: np.ndarray) -> str:
    """The lines at these positions."""
    (batches, extent, rest), dtype = new.shape(name), new.graph.tensors[name].dtype
    if np.array_equal(positions, np.arange(extent)):
        return name
    indices = np.broadcast_to(positions.astype(np.int32), (batches, len(positions)))
    operands = [name, new.constant(indices, DType.INT32)]
    return new.add("GATHER", operands, (batches, len(positions), rest), dtype)


def _interpolated(new: Rewriting, image: str, sampling: _Sampling, dtype: DType) -> str:
    """first * unit + (second - first) * distance along one axis: `unit` times the interpolated values."""
    name = _lines(new, image, sampling.axis)
    first = _widened(new, _taken(new, name, sampling.first), dtype)
    total, shape = first, new.shape(first)
    if sampling.unit > 1:
        total = _product(new, first, np.array([sampling.unit]), dtype)
    if sampling.distance.any():
        second = _widened(new, _taken(new, name, sampling.second), dtype)
        step = new.add("SUB", [second, first], shape, dtype)
        total = new.add("ADD", [total, _product(new, step, sampling.distance, dtype)], shape, dtype)
    if dtype is DType.INT32 and sampling.unit < 256 and new.graph.tensors[image].dtype is DType.INT8:
        # Half the bytes to move for the next axis.
        total = new.add("CAST", [total], shape, DType.INT16)
    return _image(new, total, image, sampling.axis)


def _widened(new: Rewriting, name: str, dtype: DType) -> str:
    if new.graph.tensors[name].dtype is dtype:
        return name
    return new.add("CAST", [name], new.shape(name), dtype)


def _product(new: Rewriting, name: str, factors: np.ndarray, dtype: DType) -> str:
    """Lines times one factor for all of them, or one for each. Factors are int16, which the vector unit may multiply by
    anything: the widest operand decides how many lanes work."""
    operands = [
        name,
        new.constant(factors.reshape(1, len(factors), 1), DType.INT16),
        new.zeros(1, DType.INT8),
    ]
    return new.add("MUL", operands, new.shape(name), dtype)
