"""Random elementwise operators, conversions and reductions for random graphs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType

from .graph import DATA, NUMBERS, Bounds, RandomGraph, full, least

_HALF: Bounds = (-(1 << 30), (1 << 30) - 1)


def binary(op: str, dtypes: tuple[DType, ...], **attributes: Any):
    """An operator of two tensors without a rule on their values."""

    def grow(g: RandomGraph) -> None:
        a = g.operand(dtypes)
        g.put(g.add(op, ordered(g, a, g.partner(a)), **attributes))

    return grow


def ordered(g: RandomGraph, a: str, b: str) -> list[str]:
    return [b, a] if g.chance(50) else [a, b]


def sum_of(op: str):
    """ADD and SUB: halves of the range, so that no result overflows."""

    def grow(g: RandomGraph) -> None:
        a = g.operand([DType.INT32], bounds=_HALF)
        a, b = ordered(g, a, g.partner(a, bounds=_HALF))
        (a_low, a_high), (b_low, b_high) = g.bounds[a], g.bounds[b]
        bounds = (a_low + b_low, a_high + b_high) if op == "ADD" else (a_low - b_high, a_high - b_low)
        g.put(g.add(op, [a, b]), bounds)

    return grow


def extreme(op: str, choose: Callable[[int, int], int]):
    def grow(g: RandomGraph) -> None:
        a = g.operand([DType.INT32])
        b = g.partner(a)
        bounds = tuple(choose(x, y) for x, y in zip(g.bounds[a], g.bounds[b], strict=True))
        g.put(g.add(op, ordered(g, a, b), nan_mode=g.pick(("PROPAGATE", "IGNORE"))), (bounds[0], bounds[1]))

    return grow


def mul(g: RandomGraph) -> None:
    a = g.operand(NUMBERS)
    a, b = ordered(g, a, g.partner(a))
    corners = [x * y for x in g.bounds[a] for y in g.bounds[b]]
    shift, bounds = 0, (min(corners), max(corners))
    if g.dtype(a) is DType.INT32 and g.chance(70):
        shift = g.draw(max(0, max(map(abs, bounds)).bit_length() - 30), 62)
        bounds = (bounds[0] >> shift, (bounds[1] >> shift) + 1)
    low, high = full(DType.INT32)
    fits = low <= bounds[0] and bounds[1] <= high
    g.put(g.add("MUL", [a, b, g.scalar(shift, DType.INT8)]), bounds if fits else None)


def intdiv(g: RandomGraph) -> None:
    a = g.operand([DType.INT32], bounds=least(DType.INT32))
    b = g.partner(a, bounds=(-(1 << 20), 1 << 20))
    ones = (1,) * len(g.extent(a))
    if g.chance(50):
        b = g.put(
            g.add("MAXIMUM", [b, g.fixed(ones, DType.INT32, (1, 1))], nan_mode="PROPAGATE"), (1, 1 << 20)
        )
    else:
        b = g.put(g.add("BITWISE_OR", [b, g.fixed(ones, DType.INT32, (1, 1))]), (-(1 << 20), 1 << 21))
    g.put(g.add("INTDIV", [a, b]), (-(1 << 31) + 1, (1 << 31) - 1))


def shift_by(op: str):
    def grow(g: RandomGraph) -> None:
        a = g.operand(NUMBERS)
        width = g.dtype(a).bits
        wide = op.startswith("LOGICAL") and g.chance(25) and g.wide_shifts
        most = 31 if wide else width - 1
        b = g.partner(a, bounds=(0, most))
        attributes: dict[str, Any] = {} if op.startswith("LOGICAL") else {"round": g.chance(50)}
        g.put(g.add(op, [a, b], **attributes))

    return grow


def table(g: RandomGraph) -> None:
    x = g.operand([DType.INT8, DType.INT16])
    if g.dtype(x) is DType.INT8:
        g.put(g.add("TABLE", [x, g.fixed((256,), DType.INT8)]))
    else:
        entries = g.fixed((513,), DType.INT16, (-(1 << 14), (1 << 14) - 1))
        g.put(g.add("TABLE", [x, entries]), (-(1 << 22), 1 << 22))


def clamp(g: RandomGraph) -> None:
    x = g.operand([DType.INT8, DType.INT16])
    low, high = sorted((g.draw(*full(g.dtype(x))), g.draw(*full(g.dtype(x)))))
    g.put(g.add("CLAMP", [x], min_val=low, max_val=high, nan_mode="PROPAGATE"), (low, high))


def unary(op: str, dtypes: tuple[DType, ...], bounds: Bounds | None = None, result: Bounds | None = None):
    def grow(g: RandomGraph) -> None:
        g.put(g.add(op, [g.operand(dtypes, bounds=bounds)]), result)

    return grow


def negate(g: RandomGraph) -> None:
    x = g.operand(NUMBERS)
    x = g.within(x, least(DType.INT32)) if g.dtype(x) is DType.INT32 else x
    g.put(g.add("NEGATE", [x, zero_point(g, g.dtype(x)), zero_point(g, g.dtype(x))]))


def zero_point(g: RandomGraph, dtype: DType) -> str:
    return g.scalar(g.draw(-128, 127) if dtype is DType.INT8 and g.chance(70) else 0, dtype)


def select(g: RandomGraph) -> None:
    a = g.operand(DATA)
    b = g.partner(a)
    wide = a if len(g.extent(a)) and np.prod(g.extent(a)) >= np.prod(g.extent(b)) else b
    condition = g.partner(wide, DType.BOOL)
    shapes = [g.extent(name) for name in (condition, a, b)]
    if any(len({size for size in sizes} - {1}) > 1 for sizes in zip(*shapes, strict=True)):
        condition = g.source((1,) * len(shapes[1]), DType.BOOL)
    bounds = (min(g.bounds[a][0], g.bounds[b][0]), max(g.bounds[a][1], g.bounds[b][1]))
    g.put(g.add("SELECT", [condition, *ordered(g, a, b)]), bounds)


def compare(op: str):
    def grow(g: RandomGraph) -> None:
        a = g.operand([DType.INT32])
        # Few values, or nothing is ever equal.
        few = (-2, 2) if g.chance(50) else None
        a = g.within(a, few)
        g.put(g.add(op, ordered(g, a, g.partner(a, bounds=few))))

    return grow


def cast(g: RandomGraph) -> None:
    x = g.operand(DATA)
    target = g.pick([dtype for dtype in DATA if dtype is not g.dtype(x)])
    low, high = g.bounds[x]
    fits = full(target)[0] <= low and high <= full(target)[1] and target is not DType.BOOL
    g.put(g.add("CAST", [x], dtype=target), (low, high) if fits else None)


def rescale(g: RandomGraph) -> None:
    x = g.operand((*NUMBERS, DType.INT48))
    rescale_to(g, x, g.pick(NUMBERS))


def rescale_to(g: RandomGraph, x: str, target: DType) -> str:
    """RESCALE whose products and results stay in their ranges."""
    source, (low, high) = g.dtype(x), g.bounds[x]
    short = {source, target} <= {DType.INT8, DType.INT16}
    unsigned = g.pick(((True, False), (False, True))) if short and g.chance(25) else (False, False)
    points = [_rescale_point(g, dtype, flag) for dtype, flag in zip((source, target), unsigned, strict=True)]
    # Bits of the value without its zero point.
    bits = (source.bits + 1 if unsigned[0] or source is DType.INT8 else max(-low, high, 1).bit_length()) + 1
    scale32 = source is not DType.INT48 and bits <= 32 and g.chance(75)
    lowest = max(2, bits) if scale32 else max(2, bits + 15 - 31)
    useful = bits + (31 if scale32 else 15) - target.bits
    per_channel = bool(g.extent(x)) and g.chance(35)
    channels = g.extent(x)[-1] if per_channel else 1
    start = min(62, max(lowest, useful + g.draw(-2, 1))) if g.chance(75) else g.draw(min(lowest, 62), 62)
    top = (1 << 31) - 1 if scale32 else (1 << 15) - 1
    operands = [
        g.fixed((channels,), DType.INT32 if scale32 else DType.INT16, (0 if g.chance(20) else top // 2, top)),
        g.fixed((channels,), DType.INT8, (start, min(62, start + g.draw(0, 3)))),
    ]
    mode = g.pick(("SINGLE_ROUND", "DOUBLE_ROUND")) if scale32 else "SINGLE_ROUND"
    y = g.add(
        "RESCALE",
        [x, *operands, *points],
        dtype=target,
        scale32=scale32,
        rounding_mode=mode,
        per_channel=per_channel,
        input_unsigned=unsigned[0],
        output_unsigned=unsigned[1],
    )
    return g.put(y)


def _rescale_point(g: RandomGraph, dtype: DType, unsigned: bool) -> str:
    if dtype is DType.INT16 and unsigned:
        return g.scalar(g.pick((0, -32768)), dtype)  # The bit pattern of 32768.
    return zero_point(g, dtype)


def reduction(op: str, dtypes: tuple[DType, ...], **attributes: Any):
    def grow(g: RandomGraph) -> None:
        x = g.operand(dtypes, ranks=(1, 6))
        axis = g.draw(0, len(g.extent(x)) - 1)
        bounds = g.bounds[x]
        if op == "REDUCE_SUM":
            count = g.extent(x)[axis]
            room = (1 << 31) // count - 1
            x = g.within(x, (-room, room))
            bounds = (g.bounds[x][0] * count, g.bounds[x][1] * count)
        g.put(g.add(op, [x], axis=axis, **attributes), bounds)

    return grow


def argmax(g: RandomGraph) -> None:
    x = g.operand([DType.INT8, DType.INT16], ranks=(1, 6))
    axis = g.draw(0, len(g.extent(x)) - 1)
    g.put(g.add("ARGMAX", [x], axis=axis, nan_mode="PROPAGATE"), (0, g.extent(x)[axis] - 1))


_BOOL = (DType.BOOL,)
_WORD = (DType.INT32,)

GROWTHS = {
    "ABS": unary("ABS", _WORD, least(DType.INT32), (0, (1 << 31) - 1)),
    "ADD": sum_of("ADD"),
    "ARGMAX": argmax,
    "ARITHMETIC_RIGHT_SHIFT": shift_by("ARITHMETIC_RIGHT_SHIFT"),
    "BITWISE_AND": binary("BITWISE_AND", NUMBERS),
    "BITWISE_NOT": unary("BITWISE_NOT", NUMBERS),
    "BITWISE_OR": binary("BITWISE_OR", NUMBERS),
    "BITWISE_XOR": binary("BITWISE_XOR", NUMBERS),
    "CAST": cast,
    "CLAMP": clamp,
    "CLZ": unary("CLZ", _WORD, None, (0, 32)),
    "EQUAL": compare("EQUAL"),
    "GREATER": compare("GREATER"),
    "GREATER_EQUAL": compare("GREATER_EQUAL"),
    "INTDIV": intdiv,
    "LOGICAL_AND": binary("LOGICAL_AND", _BOOL),
    "LOGICAL_LEFT_SHIFT": shift_by("LOGICAL_LEFT_SHIFT"),
    "LOGICAL_NOT": unary("LOGICAL_NOT", _BOOL),
    "LOGICAL_OR": binary("LOGICAL_OR", _BOOL),
    "LOGICAL_RIGHT_SHIFT": shift_by("LOGICAL_RIGHT_SHIFT"),
    "LOGICAL_XOR": binary("LOGICAL_XOR", _BOOL),
    "MAXIMUM": extreme("MAXIMUM", max),
    "MINIMUM": extreme("MINIMUM", min),
    "MUL": mul,
    "NEGATE": negate,
    "REDUCE_ALL": reduction("REDUCE_ALL", _BOOL),
    "REDUCE_ANY": reduction("REDUCE_ANY", _BOOL),
    "REDUCE_MAX": reduction("REDUCE_MAX", NUMBERS, nan_mode="PROPAGATE"),
    "REDUCE_MIN": reduction("REDUCE_MIN", NUMBERS, nan_mode="PROPAGATE"),
    "REDUCE_SUM": reduction("REDUCE_SUM", _WORD),
    "RESCALE": rescale,
    "SELECT": select,
    "SUB": sum_of("SUB"),
    "TABLE": table,
}
