"""BILINEAR RESIZEs by whole factors as depthwise convolutions (clause 2.12.1).

Each pixel of the result is one of a few sums of neighbours, by its place between the input's pixels: a phase. Phases
of a row are channels beside each other: a convolution of the input's pixels, repeated once for each phase, makes them
in the order in which the result has them. What follows element by element is computed on each row's phase.
"""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphIndex, Operator
from tosaic.compiler.legalize.resize import HEIGHT, WIDTH
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.sunk_transposes import same_for_all

_SUMS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}
"""What the array sums products of such elements in."""


@dataclasses.dataclass(frozen=True)
class _Phases:
    """How the results between two elements of an axis are made of the elements around them."""

    first: int
    """The first element of the axis that any phase reads, from the phase's own on."""
    weights: np.ndarray
    """int [phases, elements]."""

    @property
    def count(self) -> int:
        return len(self.weights)

    @property
    def before(self) -> int:
        """Elements in front of the axis that phases read."""
        return max(0, -self.first)

    @property
    def behind(self) -> int:
        return max(0, self.first + self.weights.shape[1] - 1)


def interpolate_by_convolutions(graph: Graph) -> Graph:
    """A graph with the same outputs, in which the array computes such RESIZEs of bytes."""
    if not any(operator.op == "RESIZE" for operator in graph.operators):
        return graph
    graph = graph.copy()
    index, replaced = graph.index(), dict[int, list[Operator]]()
    for operator in graph.operators:
        phases = _phases(graph, operator)
        if phases is not None:
            steps = _steps(graph, index, operator)
            replaced |= {id(step): [] for step in (operator, *steps)}
            replaced[id((operator, *steps)[-1])] = _convolved(graph, operator, steps, *phases)
    graph.operators = [new for old in graph.operators for new in replaced.get(id(old), [old])]
    return graph


def _phases(graph: Graph, operator: Operator) -> tuple[_Phases, _Phases] | None:
    """Those of the height and of the width; None where a RESIZE has others, or too large weights."""
    if operator.op != "RESIZE" or operator.attributes["mode"] != "BILINEAR":
        return None
    source, result = (graph.tensors[name] for name in (operator.inputs[0], operator.outputs[0]))
    values = [graph.const(name) for name in operator.inputs[1:3]]
    if source.dtype not in _SUMS or source.data is not None or any(value is None for value in values):
        return None
    scale, offset = ([int(each) for each in value] for value in values)  # type: ignore[union-attr]
    found = [
        _axis(scale[2 * axis - 2 : 2 * axis], offset[axis - 1], source.shape[axis], result.shape[axis])
        for axis in (HEIGHT, WIDTH)
    ]
    if found[0] is None or found[1] is None or found[0].count * found[1].count == 1:
        return None
    largest = int(found[0].weights.max()) * int(found[1].weights.max())
    return (found[0], found[1]) if largest <= DType.INT8.max else None


def _axis(scale: list[int], offset: int, extent: int, count: int) -> _Phases | None:
    """The phases of an axis of `extent` elements and `count` results."""
    unit, step = scale
    factor, rest = divmod(unit, step)
    if rest or count != factor * extent:
        return None
    places, distances = np.divmod(np.arange(factor) * step + offset, unit)
    first, last = int(places.min()), int((places + (distances > 0)).max())
    weights = np.zeros((factor, last - first + 1), np.int64)
    for phase, (place, distance) in enumerate(zip(places - first, distances, strict=True)):
        weights[phase, place] += unit - distance
        if distance:
            weights[phase, place + 1] += distance
    return _Phases(first, weights)


def _steps(graph: Graph, index: GraphIndex, operator: Operator) -> list[Operator]:
    """What follows element by element, as far as it makes the elements smaller: that much less is moved."""
    steps, best, name = list[Operator](), 0, operator.outputs[0]
    least = graph.tensors[name].dtype.bits
    while name not in graph.outputs and len(index.consumers(name)) == 1:
        (reader,) = index.consumers(name)
        if not same_for_all(graph, reader):
            break
        steps.append(reader)
        name = reader.outputs[0]
        if graph.tensors[name].dtype.bits <= least:
            least, best = graph.tensors[name].dtype.bits, len(steps)
    return steps[:best]


def _convolved(
    graph: Graph, operator: Operator, steps: list[Operator], height: _Phases, width: _Phases
) -> list[Operator]:
    """The operators for a RESIZE with what follows."""
    new, (result,) = Rewriting(graph, operator), (operator, *steps)[-1].outputs
    n, ih, iw, channels = new.shape(operator.inputs[0])
    image = operator.inputs[0]
    for axis, phases in ((HEIGHT, height), (WIDTH, width)):
        image = _with_edges(new, image, axis, phases)
    image = new.op("TILE", image, new.sizes([1, 1, 1, width.count])) if width.count > 1 else image
    rows = []
    for phase, weights in enumerate(height.weights):
        used = np.flatnonzero(weights)
        kernel = np.einsum("y,px->yxp", weights[used[0] : used[-1] + 1], width.weights)
        rows.append(_row(new, image, int(used[0]), ih, np.repeat(kernel, channels, axis=2)))
        rows[phase] = _followed(new, rows[phase], operator, steps)
    lines = [new.reshape(row, (n * ih, 1, 1, iw * width.count * channels)) for row in rows]
    joined = new.concat(lines, 1) if len(lines) > 1 else lines[0]
    new.reshape(joined, new.shape(result), result)
    return new.operators


def _with_edges(new: Rewriting, image: str, axis: int, phases: _Phases) -> str:
    """An image whose first and last lines are repeated where phases read beyond them; lines of which they read none are
    left out."""
    extent, reach = new.shape(image)[axis], phases.weights.shape[1]
    first, last = (new.slice_axis(image, axis, place, 1) for place in (0, extent - 1))
    parts = [first] * phases.before + [image] + [last] * phases.behind
    whole = new.concat(parts, axis) if len(parts) > 1 else image
    return new.slice_axis(whole, axis, max(0, phases.first), extent + reach - 1)


def _row(new: Rewriting, image: str, start: int, height: int, kernel: np.ndarray) -> str:
    """The results of one phase of the height: [N, IH, IW, phases of the width * C]."""
    (kh, kw, channels), dtype = kernel.shape, new.dtype(image)
    n, _, width, _ = new.shape(image)
    lines = new.slice_axis(image, HEIGHT, start, height + kh - 1)
    return new.add(
        "DEPTHWISE_CONV2D",
        [
            lines,
            new.constant(kernel.reshape(kh, kw, channels, 1), DType.INT8),
            new.zeros(channels, _SUMS[dtype]),
            new.zeros(1, dtype),
            new.zeros(1, DType.INT8),
        ],
        (n, height, width - kw + 1, channels),
        _SUMS[dtype],
        pad=[0, 0, 0, 0],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=_SUMS[dtype],
        local_bound=False,
    )


def _followed(new: Rewriting, row: str, operator: Operator, steps: list[Operator]) -> str:
    """What is computed element by element, of one row's phase."""
    before = operator.outputs[0]
    for step in steps:
        inputs = [row if name == before else name for name in step.inputs]
        row = new.add(step.op, inputs, new.shape(row), new.dtype(step.outputs[0]), **step.attributes)
        new.operators[-1].name, before = step.name, step.outputs[0]
    return row
