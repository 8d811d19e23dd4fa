"""Chapter 4 of the NNEF text in float64 NumPy: flat graphs of primitives, formula by formula.

Compounds are expanded by the text's own bodies first, so that each has its definition as its reference. Where
docs/records/nnef_readings.md reads the text in one of several ways, so does this.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.nnef.graph import FlatGraph, NnefOperation, TensorValue

Arrays = dict[str, np.ndarray]
DTYPES = {"scalar": np.float64, "integer": np.int64, "logical": np.bool_}


def evaluate(graph: FlatGraph, inputs: Arrays, variables: Arrays) -> tuple[Arrays, Arrays]:
    """Outputs by identifier, and the new values of updated variables by label in lower case."""
    known: dict[int, np.ndarray] = {}
    updates: Arrays = {}
    for operation in graph.operations:
        arguments = {name: _resolved(value, known) for name, value in operation.arguments.items()}
        if operation.name == "external":
            (result,) = operation.results.values()
            name = next(n for n in graph.inputs if graph.tensors[n] is result)
            results: Any = inputs[name]
        elif operation.name == "variable":
            results = variables[arguments["label"].lower()]
        elif operation.name == "update":
            variable = operation.arguments["variable"]
            assert isinstance(variable, TensorValue) and variable.producer is not None
            updates[str(variable.producer.arguments["label"]).lower()] = results = arguments["value"]
        else:
            results = PRIMITIVES[operation.name](operation, **arguments)
        _store(operation, results, known)
    return {name: known[id(graph.tensors[name])] for name in graph.outputs}, updates


def _resolved(value: Any, known: dict[int, np.ndarray]) -> Any:
    if isinstance(value, TensorValue):
        return known[id(value)]
    if isinstance(value, list) and value and isinstance(value[0], TensorValue):
        return [known[id(item)] for item in value]
    return value


def _store(operation: NnefOperation, results: Any, known: dict[int, np.ndarray]) -> None:
    for result in operation.results.values():
        parts = [result] if isinstance(result, TensorValue) else result
        values = [results] if isinstance(result, TensorValue) else results
        for tensor, value in zip(parts, values, strict=True):
            array = np.asarray(value)
            assert array.shape == tensor.shape, (operation.name, array.shape, tensor.shape)
            known[id(tensor)] = array.astype(DTYPES[tensor.data])


# --- element-wise (4.2): dimensions are aligned from the first one on -------------------------------------------


def aligned(*values: Any) -> list[np.ndarray]:
    arrays = [np.asarray(value) for value in values]
    rank = max(array.ndim for array in arrays)
    return [array.reshape(array.shape + (1,) * (rank - array.ndim)) for array in arrays]


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda operation, x: function(np.asarray(x))


def _binary(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda operation, x, y: function(*aligned(x, y))


def _constant(operation: NnefOperation, shape: list[int], value: list[Any]) -> np.ndarray:
    return np.array(value * (math.prod(shape) if len(value) == 1 else 1)).reshape(shape)


def _select(operation: NnefOperation, condition: Any, true_value: Any, false_value: Any) -> np.ndarray:
    return np.where(*aligned(condition, true_value, false_value))


# --- sliding windows (4.3) --------------------------------------------------------------------------------------


def source(index: int, extent: int, border: str) -> int | None:
    """Which element input~[index] is; None for a zero, or for what border 'ignore' leaves out."""
    if 0 <= index < extent:
        return index
    if border in ("constant", "ignore"):
        return None
    if border == "replicate":
        return 0 if index < 0 else extent - 1
    if border == "reflect":
        return -index if index < 0 else extent - 1 - (index - extent + 1)
    return -index - 1 if index < 0 else extent - 1 - (index - extent)


class Axis:
    """One dimension of a sliding-window operation, X up-scaled and x down-scaled extents."""

    def __init__(self, up: int, down: int, f: int, s: int, d: int, padding: tuple[int, int] | None) -> None:
        self.f, self.s, self.d, self.up, self.down = f, s, d, up, down
        t = max((down - 1) * s + (f - 1) * d + 1 - up, 0)
        self.p = t // 2 if padding is None else padding[0]

    def forward(self, extent: int, border: str) -> list[list[int | None]]:
        """[output][tap]: i * s + j * d - p."""
        return [
            [source(i * self.s + j * self.d - self.p, extent, border) for j in range(self.f)]
            for i in range(self.down)
        ]

    def backward(self, extent: int, border: str) -> list[list[int | None]]:
        """[output][tap]: (i + p - j * d) / s where that is whole."""
        return [
            [
                None
                if (i + self.p - j * self.d) % self.s
                else source((i + self.p - j * self.d) // self.s, extent, border)
                for j in range(self.f)
            ]
            for i in range(self.up)
        ]


def _axes(
    up: Sequence[int], down: Sequence[int], size: Sequence[int], stride: Any, dilation: Any, padding: Any
) -> list[Axis]:
    count = len(size)
    strides, dilations, paddings = stride or [1] * count, dilation or [1] * count, padding or [None] * count
    return [Axis(*item) for item in zip(up, down, size, strides, dilations, paddings, strict=True)]


def taps(x: np.ndarray, maps: list[list[list[int | None]]]) -> Iterator[tuple[tuple[int, ...], Any, Any]]:
    """Yields, for each tap of a window over the last dimensions, its index, input~ there, and where that is an
    element."""
    first = x.ndim - len(maps)
    for tap in itertools.product(*(range(len(table[0])) for table in maps)):
        values, valid = x, np.ones((), bool)
        for i, (table, j) in enumerate(zip(maps, tap, strict=True)):
            indices = [row[j] for row in table]
            values = np.take(values, [index or 0 for index in indices], axis=first + i)
            valid = valid[..., None] & np.array([index is not None for index in indices])
        yield tap, np.where(valid, values, 0.0), valid


def _filtered(
    x: np.ndarray, maps: Any, weights: np.ndarray, bias: Any, groups: int, transposed: bool
) -> np.ndarray:
    """Sums over taps and channels; weights [down channels, up channels / groups, kernel...]."""
    total: Any = 0.0
    for tap, values, _ in taps(x, maps):
        parts = []
        for group, part in enumerate(np.split(values, groups, axis=1)):
            per = weights.shape[0] // groups
            kernel = weights[(slice(group * per, (group + 1) * per), slice(None), *tap)]
            parts.append(np.einsum("nc...,ck->nk..." if transposed else "nc...,kc->nk...", part, kernel))
        total = total + np.concatenate(parts, axis=1)
    bias = np.asarray(bias)
    channels = bias.reshape(-1) if bias.size > 1 else np.full(total.shape[1], bias.reshape(-1)[0])
    return total + channels.reshape(1, -1, *(1,) * (total.ndim - 2))


def _conv(
    operation: NnefOperation, input: Any, filter: Any, bias: Any, border: str, groups: int, **a: Any
) -> Any:
    shape = _result(operation).shape
    axes = _axes(input.shape[2:], shape[2:], filter.shape[2:], a["stride"], a["dilation"], a["padding"])
    maps = [axis.forward(extent, border) for axis, extent in zip(axes, input.shape[2:], strict=True)]
    return _filtered(input, maps, filter, bias, groups or input.shape[1], False)


def _deconv(
    operation: NnefOperation, input: Any, filter: Any, bias: Any, border: str, groups: int, **a: Any
) -> Any:
    shape = _result(operation).shape
    axes = _axes(shape[2:], input.shape[2:], filter.shape[2:], a["stride"], a["dilation"], a["padding"])
    maps = [axis.backward(extent, border) for axis, extent in zip(axes, input.shape[2:], strict=True)]
    return _filtered(input, maps, filter, bias, shape[1] // filter.shape[1], True)


def _result(operation: NnefOperation) -> TensorValue:
    (result,) = operation.results.values()
    assert isinstance(result, TensorValue)
    return result


def _window_axes(
    operation: NnefOperation, up: Sequence[int], down: Sequence[int], a: dict[str, Any]
) -> list[Axis]:
    size = [*a["size"], *[1] * (len(up) - len(a["size"]))]
    return _axes(up, down, size, a["stride"], a["dilation"], a["padding"])


def _forward_maps(operation: NnefOperation, x: np.ndarray, a: dict[str, Any]) -> Any:
    axes = _window_axes(operation, x.shape, _result(operation).shape, a)
    return [axis.forward(extent, a["border"]) for axis, extent in zip(axes, x.shape, strict=True)]


def _summed(x: np.ndarray, maps: Any, normalize: bool, border: str) -> np.ndarray:
    total: Any = 0.0
    counts: Any = 0
    for _, values, valid in taps(x, maps):
        total, counts = total + values, counts + valid
    if not normalize:
        return total
    return total / (counts if border == "ignore" else math.prod(len(table[0]) for table in maps))


def _box(operation: NnefOperation, input: Any, normalize: bool, **a: Any) -> np.ndarray:
    return _summed(input, _forward_maps(operation, input, a), normalize, a["border"])


def _debox(operation: NnefOperation, input: Any, normalize: bool, output_shape: Any, **a: Any) -> np.ndarray:
    axes = _window_axes(operation, _result(operation).shape, input.shape, a)
    maps = [axis.backward(extent, a["border"]) for axis, extent in zip(axes, input.shape, strict=True)]
    return _summed(input, maps, normalize, a["border"])


def _argmax_pool(operation: NnefOperation, input: Any, **a: Any) -> np.ndarray:
    candidates = []
    for _, values, valid in taps(np.asarray(input, np.float64), _forward_maps(operation, input, a)):
        candidates.append(np.where(valid, values, -np.inf) if a["border"] == "ignore" else values)
    return np.argmax(np.stack(candidates), axis=0)


def _sample(operation: NnefOperation, input: Any, index: Any, **a: Any) -> np.ndarray:
    result = np.zeros(index.shape)
    for number, (_, values, _) in enumerate(taps(input, _forward_maps(operation, input, a))):
        result = np.where(index == number, values, result)
    return result


def _desample(operation: NnefOperation, input: Any, index: Any, output_shape: Any, **a: Any) -> np.ndarray:
    axes = _window_axes(operation, _result(operation).shape, input.shape, a)
    maps = [axis.backward(extent, "constant") for axis, extent in zip(axes, input.shape, strict=True)]
    result = np.zeros(_result(operation).shape)
    pairs = zip(taps(input, maps), taps(index, maps), strict=True)
    for number, ((_, values, valid), (_, chosen, _)) in enumerate(pairs):
        result = result + np.where(valid & (chosen == number), values, 0.0)
    return result


def _multilinear(
    operation: NnefOperation, input: Any, factor: list[int], method: str, border: str
) -> np.ndarray:
    x = input
    for axis, f in enumerate(factor, 2):
        extent, lines = input.shape[axis], []
        for i in range(extent * f):
            if method == "asymmetric":
                at = i / f
            elif method == "symmetric":
                at = (i - (f - 1) / 2) / f
            else:
                at = i * (extent - 1) / (extent * f - 1) if extent * f > 1 else 0.0
            j, u = math.floor(at), at - math.floor(at)
            line: Any = 0.0
            for index, weight in ((j, 1 - u), (j + 1, u)):
                found = source(index, extent, border) if weight else None
                if found is not None:
                    line = line + weight * np.take(x, found, axis=axis)
            lines.append(line + np.zeros_like(np.take(x, 0, axis=axis)))
        x = np.stack(lines, axis=axis)
    return x


# --- reductions and shapes (4.4, 4.5) ---------------------------------------------------------------------------


def _reduction(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda operation, input, axes: function(input, axis=tuple(axes), keepdims=True)


def _sum_reduce(operation: NnefOperation, input: Any, axes: list[int], normalize: bool) -> np.ndarray:
    total = np.sum(input, axis=tuple(axes), keepdims=True)
    return total / math.prod(input.shape[axis] for axis in axes) if normalize else total


def _arg_reduce(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def reduce(operation: NnefOperation, input: Any, axes: list[int]) -> np.ndarray:
        rest = [axis for axis in range(input.ndim) if axis not in axes]
        rows = input.transpose(rest + sorted(axes)).reshape([input.shape[axis] for axis in rest] + [-1])
        return function(rows, axis=-1).reshape(_result(operation).shape)

    return reduce


def _transpose(operation: NnefOperation, input: Any, axes: list[int]) -> np.ndarray:
    return input.transpose([*axes, *range(len(axes), input.ndim)])


def _split(operation: NnefOperation, value: Any, axis: int, ratios: list[int]) -> list[np.ndarray]:
    unit = value.shape[axis] // sum(ratios)
    return np.split(value, [unit * n for n in itertools.accumulate(ratios)][:-1], axis=axis)


def _slice(
    operation: NnefOperation, input: Any, axes: list[int], begin: list[int], end: list[int]
) -> np.ndarray:
    box = [slice(None)] * input.ndim
    for axis, first, last in zip(axes, begin, end, strict=True):
        box[axis] = slice(first, last or None)
    return input[tuple(box)]


# --- regions of interest (4.6) ----------------------------------------------------------------------------------


def _roi_pool(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def pool(
        operation: NnefOperation, input: Any, rois: Any, batch_index: Any, output_size: Any
    ) -> np.ndarray:
        result = np.zeros(_result(operation).shape)
        spatial = len(output_size)
        for n in range(len(rois)):
            bounds = np.floor(np.asarray(rois[n]) + 0.5).astype(int)
            for cell in itertools.product(*map(range, output_size)):
                box = []
                for i in range(spatial):
                    extent = bounds[spatial + i] - bounds[i]
                    start = bounds[i] + cell[i] * (extent // output_size[i])
                    box.append(slice(max(start, 0), max(start + -(-extent // output_size[i]), 0)))
                region = input[(batch_index[n, 0], slice(None), *box)]
                result[(n, slice(None), *cell)] = function(region.reshape(region.shape[0], -1), axis=1)
        return result

    return pool


def _roi_resample(
    operation: NnefOperation, input: Any, rois: Any, batch_index: Any, output_size: Any, method: str
) -> Any:
    maps = []
    spatial = len(output_size)
    for n in range(len(rois)):
        x = input[batch_index[n, 0]]
        for i, count in enumerate(output_size):
            low, high, extent = rois[n, i], rois[n, spatial + i], x.shape[1 + i]
            lines = []
            for k in range(count):
                at = {
                    "symmetric": low + (k + 0.5) * (high - low) / count - 0.5,
                    "asymmetric": low + k * (high - low) / count,
                    "aligned": low + k * (high - low - 1) / max(count - 1, 1),
                }[method]
                at = min(max(at, 0.0), extent - 1.0)
                j = min(math.floor(at), extent - 1)
                above = np.take(x, min(j + 1, extent - 1), axis=1 + i)
                lines.append((1 - (at - j)) * np.take(x, j, axis=1 + i) + (at - j) * above)
            x = np.stack(lines, axis=1 + i)
        maps.append(x)
    return np.stack(maps)


def _matmul(operation: NnefOperation, A: Any, B: Any, transposeA: bool, transposeB: bool) -> np.ndarray:
    return (np.swapaxes(A, -1, -2) if transposeA else A) @ (np.swapaxes(B, -1, -2) if transposeB else B)


PRIMITIVES: dict[str, Callable[..., Any]] = {
    "constant": _constant,
    "copy": _unary(lambda x: x),
    "neg": _unary(lambda x: -x),
    "rcp": _unary(lambda x: 1 / x),
    "exp": _unary(np.exp),
    "log": _unary(np.log),
    "abs": _unary(lambda x: np.where(x >= 0, x, -x)),
    "sign": _unary(lambda x: np.where(x > 0, 1.0, np.where(x == 0, 0.0, -1.0))),
    "not": _unary(np.logical_not),
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "round": _unary(lambda x: np.floor(x + 0.5)),
    "add": _binary(lambda x, y: x + y),
    "sub": _binary(lambda x, y: x - y),
    "mul": _binary(lambda x, y: x * y),
    "div": _binary(lambda x, y: x / y),
    "pow": _binary(lambda x, y: x**y),
    "lt": _binary(lambda x, y: x < y),
    "gt": _binary(lambda x, y: x > y),
    "le": _binary(lambda x, y: x <= y),
    "ge": _binary(lambda x, y: x >= y),
    "eq": _binary(lambda x, y: x == y),
    "ne": _binary(lambda x, y: x != y),
    "and": _binary(np.logical_and),
    "or": _binary(np.logical_or),
    "select": _select,
    "conv": _conv,
    "deconv": _deconv,
    "box": _box,
    "debox": _debox,
    "argmax_pool": _argmax_pool,
    "sample": _sample,
    "desample": _desample,
    "multilinear_upsample": _multilinear,
    "sum_reduce": _sum_reduce,
    "max_reduce": _reduction(np.max),
    "min_reduce": _reduction(np.min),
    "argmax_reduce": _arg_reduce(np.argmax),
    "argmin_reduce": _arg_reduce(np.argmin),
    "reshape": lambda operation, input, shape: input.reshape(_result(operation).shape),
    "transpose": _transpose,
    "split": _split,
    "concat": lambda operation, values, axis: np.concatenate(values, axis),
    "slice": _slice,
    "avg_roi_pool": _roi_pool(np.mean),
    "max_roi_pool": _roi_pool(np.max),
    "roi_resample": _roi_resample,
    "matmul": _matmul,
}
