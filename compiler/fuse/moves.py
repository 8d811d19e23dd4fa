"""Layout operators as boxes of their output and where each box's elements come from (clause 2.10)."""

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from tosaic.compiler.cut.boxes import NotCut
from tosaic.compiler.cut.nests import Nest
from tosaic.compiler.cut.reads import Reads
from tosaic.compiler.cut.rules import nest_of
from tosaic.compiler.ir import Graph, Operator
from tosaic.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class MovedBox:
    """A box of the output; all sizes in elements."""

    source: str | None
    """Tensor that the elements come from; None: all are `fill`."""
    low: tuple[int, ...]
    """The box's first element in the output."""
    counts: tuple[int, ...]
    offset: int = 0
    """Place of that element in the dense source."""
    strides: tuple[int, ...] = ()
    """Elements in the source from one output position to the next, per axis; 0 repeats, below 0 goes backwards."""
    fill: int = 0

    def within(self, low: tuple[int, ...], counts: tuple[int, ...]) -> "MovedBox | None":
        """What of this box lies in another one."""
        first = tuple(max(a, b) for a, b in zip(self.low, low, strict=True))
        last = tuple(min(a + n, b + m) for a, n, b, m in zip(self.low, self.counts, low, counts, strict=True))
        if any(a >= b for a, b in zip(first, last, strict=True)):
            return None
        inner = tuple(b - a for a, b in zip(first, last, strict=True))
        moved = (f - a for f, a in zip(first, self.low, strict=True))
        offset = self.offset + sum(m * stride for m, stride in zip(moved, self.strides, strict=False))
        return dataclasses.replace(self, low=first, counts=inner, offset=offset)


@dataclasses.dataclass(frozen=True)
class Move:
    """A whole layout operator: parts that cover the output; where two overlap the later one counts. `shape` has as
    many elements as the output, in the same order, but may split an axis in two."""

    shape: tuple[int, ...]
    parts: tuple[MovedBox, ...]


def move_sources(operator: Operator) -> list[str]:
    """The tensors whose elements the operator moves."""
    return list(operator.inputs) if operator.op == "CONCAT" else operator.inputs[:1]


def plan_move(graph: Graph, operator: Operator) -> Move:
    """How the operator's output is put together."""
    target = graph.tensors[operator.outputs[0]].shape
    if operator.op == "TILE":
        return _repeated(graph, operator)
    nest = nest_of(graph, operator)
    if isinstance(nest, NotCut):
        raise UnsupportedError(f"{operator}: {nest.reason}; only constants are supported there")
    assert isinstance(nest, Nest), f"{operator} does not move elements"
    sources = enumerate(move_sources(operator))
    parts = [_part(name, target, nest.operands[number]) for number, name in sources]
    fills = _fills(graph, operator, parts[0]) if operator.op == "PAD" else ()
    return Move(target, (*parts, *fills))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _part(source: str, target: tuple[int, ...], axes: tuple[Reads, ...]) -> MovedBox:
    """The box of the output whose elements come from an operand that is read so."""
    low, counts, strides, offset = [0] * len(target), list(target), [0] * len(target), 0
    for reads, stride in zip(axes, _dense(tuple(reads.extent for reads in axes)), strict=True):
        ((axis, step),) = reads.terms
        low[axis], last = reads.readers(axis, target[axis])
        counts[axis], strides[axis] = last - low[axis], step * stride
        offset += (step * low[axis] + reads.offset) * stride
    return MovedBox(source, tuple(low), tuple(counts), offset, tuple(strides))


def _repeated(graph: Graph, operator: Operator) -> Move:
    """A TILE: each axis is one of copies and one of elements."""
    shape = graph.tensors[operator.inputs[0]].shape
    pairs = zip(graph.operand_value(operator, "multiples"), shape, strict=True)
    split = tuple(int(n) for pair in pairs for n in pair)
    strides = tuple(s for stride in _dense(shape) for s in (0, stride))
    return Move(split, (MovedBox(operator.inputs[0], (0,) * len(split), split, 0, strides),))


def _fills(graph: Graph, operator: Operator, inside: MovedBox) -> Iterator[MovedBox]:
    """Per axis a slab before the input and one after it: inside the slabs of the axes before, across the rest."""
    target, front, shape = graph.tensors[operator.outputs[0]].shape, inside.low, inside.counts
    fill = int(graph.operand_value(operator, "pad_const").reshape(-1)[0])
    for axis in range(len(shape)):
        for start, count in (
            (0, front[axis]),
            (front[axis] + shape[axis], target[axis] - front[axis] - shape[axis]),
        ):
            if count:
                low = (*front[:axis], start, *((0,) * (len(shape) - axis - 1)))
                yield MovedBox(None, low, (*shape[:axis], count, *target[axis + 1 :]), fill=fill)


def moved(move: Move, source: np.ndarray) -> np.ndarray:
    """The Move carried out on a constant, the only source there is; zero where no part is."""
    flat = np.ascontiguousarray(source).reshape(-1)
    out = np.zeros(move.shape, source.dtype)
    for part in move.parts:
        box = tuple(slice(i, i + count) for i, count in zip(part.low, part.counts, strict=True))
        if part.source is None:
            out[box] = part.fill
        else:
            steps = tuple(stride * flat.itemsize for stride in part.strides)
            out[box] = np.lib.stride_tricks.as_strided(flat[part.offset :], part.counts, steps)
    return out


def blocks(shape: tuple[int, ...], limit_elements: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first element, sizes) of boxes that cover a dense tensor, contiguous in it, of at most
    `limit_elements` elements each."""
    rest = _dense(shape)
    depth = next((i for i, size in enumerate(rest) if size <= limit_elements), 0)
    if not shape:
        yield (), ()
        return
    step = max(1, min(shape[depth], limit_elements // rest[depth]))
    for outer in itertools.product(*(range(size) for size in shape[:depth])):
        for start in range(0, shape[depth], step):
            low = (*outer, start, *((0,) * (len(shape) - depth - 1)))
            count = min(step, shape[depth] - start)
            yield low, (*((1,) * depth), count, *shape[depth + 1 :])
