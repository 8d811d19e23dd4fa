"""Random layout operators, gathers and scatters for random graphs."""

import math

import numpy as np

from tosaic.compiler.ir import DType

from .graph import DATA, MAX_ELEMENTS, NUMBERS, RandomGraph

_ANY_AXIS = (1, 6)


def concat(g: RandomGraph) -> None:
    first = g.operand(DATA, ranks=_ANY_AXIS)
    shape, dtype = g.extent(first), g.dtype(first)
    axis = g.draw(0, len(shape) - 1)
    parts = [first]
    for _ in range(g.draw(0, 3)):
        same = [
            name
            for name in g.live
            if g.dtype(name) is dtype
            and len(g.extent(name)) == len(shape)
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(shape, g.extent(name), strict=True)))
        ]
        if g.chance(60):
            parts.append(g.pick(same))
        else:
            parts.append(g.source((*shape[:axis], g.draw(1, 6), *shape[axis + 1 :]), dtype))
    if g.chance(30):
        parts.reverse()
    bounds = min(g.bounds[name][0] for name in parts), max(g.bounds[name][1] for name in parts)
    g.put(g.add("CONCAT", parts, axis=axis), bounds)


def pad(g: RandomGraph) -> None:
    x = g.operand(DATA, ranks=_ANY_AXIS)
    shape, padding = list(g.extent(x)), []
    for axis in range(len(shape)):
        for _ in range(2):
            room = max(0, MAX_ELEMENTS * 2 // (math.prod(shape) // shape[axis]) - shape[axis])
            padding.append(g.draw(0, min(4, room)) if g.chance(60) else 0)
            shape[axis] += padding[-1]
    value = g.fixed((1,), g.dtype(x))
    low, high = g.bounds[x]
    data = g.graph.const(value)
    assert data is not None
    filled = int(data[0])
    g.put(g.add("PAD", [x, g.shape(padding), value]), (min(low, filled), max(high, filled)))


def reshape(g: RandomGraph) -> None:
    x = g.operand(DATA)
    shape = g.refold(math.prod(g.extent(x)), g.draw(0, 6))
    if shape is None:
        shape = (math.prod(g.extent(x)),)
    g.put(g.add("RESHAPE", [x, g.shape(shape)]), g.bounds[x])


def reverse(g: RandomGraph) -> None:
    x = g.operand(DATA, ranks=_ANY_AXIS)
    g.put(g.add("REVERSE", [x], axis=g.draw(0, len(g.extent(x)) - 1)), g.bounds[x])


def slice_(g: RandomGraph) -> None:
    x = g.operand(DATA, ranks=_ANY_AXIS)
    start = [g.draw(0, size - 1) if g.chance(60) else 0 for size in g.extent(x)]
    size = [
        g.draw(1, whole - first) if g.chance(60) else whole - first
        for whole, first in zip(g.extent(x), start, strict=True)
    ]
    g.put(g.add("SLICE", [x, g.shape(start), g.shape(size)]), g.bounds[x])


def tile(g: RandomGraph) -> None:
    x = g.operand(DATA, ranks=_ANY_AXIS)
    room, multiples = MAX_ELEMENTS * 2 // math.prod(g.extent(x)), []
    for _ in g.extent(x):
        multiples.append(g.draw(1, max(1, min(4, room))))
        room //= multiples[-1]
    g.put(g.add("TILE", [x, g.shape(multiples)]), g.bounds[x])


def transpose(g: RandomGraph) -> None:
    x = g.operand(DATA, ranks=_ANY_AXIS)
    perms = list(range(len(g.extent(x))))
    for i in range(len(perms)):
        j = g.draw(0, i)
        perms[i], perms[j] = perms[j], perms[i]
    g.put(g.add("TRANSPOSE", [x], perms=perms), g.bounds[x])


def identity(g: RandomGraph) -> None:
    x = g.operand((*DATA, DType.INT48))
    g.put(g.add("IDENTITY", [x]), g.bounds[x])


def gather(g: RandomGraph) -> None:
    values = g.operand(NUMBERS, ranks=(3, 3))
    n, k, c = g.extent(values)
    count = g.draw(1, max(1, min(12, MAX_ELEMENTS // (n * c))))
    known = [
        name
        for name in g.live
        if g.dtype(name) is DType.INT32 and len(g.extent(name)) == 2 and g.extent(name)[0] == n
    ]
    if known and g.chance(50):
        indices = g.within(g.pick(known), (0, k - 1))
    else:
        indices = g.source((n, count), DType.INT32, (0, k - 1))
    g.put(g.add("GATHER", [values, indices]), g.bounds[values])


def scatter(g: RandomGraph) -> None:
    values = g.operand(NUMBERS, ranks=(3, 3))
    n, k, c = g.extent(values)
    count = g.draw(1, min(k, 12))
    if g.chance(50):
        rows = np.stack([g.random.permutation(k)[:count] for _ in range(n)])
        indices = g.constant(rows, DType.INT32)
    else:
        indices = g.input(f"input_{len(g.graph.inputs)}", (n, count), DType.INT32)
        g.bounds[indices] = (0, k - 1)
        g.distinct.add(indices)
    dtype = g.dtype(values)
    same = [name for name in g.live if g.extent(name) == (n, count, c) and g.dtype(name) is dtype]
    source = g.pick(same) if same and g.chance(70) else g.source((n, count, c), dtype)
    bounds = min(g.bounds[values][0], g.bounds[source][0]), max(g.bounds[values][1], g.bounds[source][1])
    g.put(g.add("SCATTER", [values, indices, source]), bounds)


GROWTHS = {
    "CONCAT": concat,
    "GATHER": gather,
    "IDENTITY": identity,
    "PAD": pad,
    "RESHAPE": reshape,
    "REVERSE": reverse,
    "SCATTER": scatter,
    "SLICE": slice_,
    "TILE": tile,
    "TRANSPOSE": transpose,
}
