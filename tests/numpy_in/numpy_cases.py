"""Cases for NumPy in: every function on every type, and random programs; each is judged against the installed NumPy.

`matrix` and `programs` make cases of a seed; `judge` traces one, runs it on targets, and tells whether NumPy and Tosaic
agree: in values, types and shapes, in the intervals that were proved, and in the errors that are raised.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy_corners import CORNERS

import tosaic
from tosaic.compiler.numpy_in import trace_function
from tosaic.driver.function_session import FunctionSession

TYPES = [np.dtype(t) for t in ("bool", "i1", "u1", "i2", "u2", "i4", "u4")]
INTEGERS = TYPES[1:]
BOTH = ("golden", "emulator")


@dataclasses.dataclass(frozen=True)
class Case:
    """A function and its arguments."""

    label: str
    function: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    steps: Sequence[Any] = ()
    """Of a random program."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """exact, refused (by name, what NumPy computes), error (both raise), or WRONG."""

    kind: str
    text: str = ""


def listed(result: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in (result if isinstance(result, list | tuple) else [result])]


def judge(case: Case, targets: Sequence[str] = BOTH, config: str = "nano") -> Verdict:
    """Whether the function's graph gives on each target what the function gives."""
    try:
        with np.errstate(all="ignore"):
            wanted: Any = listed(case.function(*(each.copy() for each in case.arrays)))
    except Exception as error:
        wanted = error
    specs = {f"x{i}": each for i, each in enumerate(case.arrays)}
    try:
        traced = trace_function(case.function, specs)
    except (tosaic.TraceError, tosaic.InputError) as error:
        text = str(error)
        named = isinstance(error, tosaic.InputError) or ".py:" in text.partition(" ")[0]
        kind = "error" if isinstance(wanted, Exception) else "refused"
        return Verdict(kind if named else "WRONG", text)
    except Exception as error:
        same = type(error) is type(wanted)
        return Verdict(
            "error" if same else "WRONG", f"{type(error).__name__}: {error}; NumPy: {wanted!r}"[:400]
        )
    if isinstance(wanted, Exception):
        return Verdict("WRONG", f"traced, where NumPy raises {wanted!r}")
    names = traced.graph.run_outputs
    for name, value in zip(names, wanted, strict=True):
        declared = traced.graph.declared[name]
        if not declared.low <= int(value.min()) <= int(value.max()) <= declared.high:
            return Verdict("WRONG", f"{name} is not in {declared.low}..{declared.high}")
    for target in targets:
        session = FunctionSession(traced, case.label, target, None if target == "golden" else config)
        got = session.run(dict(zip(specs, case.arrays, strict=True)))
        for name, value in zip(names, wanted, strict=True):
            found = got[name]
            if (found.dtype, found.shape) != (value.dtype, value.shape):
                return Verdict(
                    "WRONG", f"{target}: {found.dtype}{found.shape}, NumPy {value.dtype}{value.shape}"
                )
            if not np.array_equal(found, value):
                where = tuple(np.argwhere(found != value)[0])
                return Verdict(
                    "WRONG", f"{target}: {name}{list(where)} is {found[where]}, NumPy {value[where]}"
                )
    return Verdict("exact")


# --- the type matrix


def values(rng: np.random.Generator, shape: Any, dtype: np.dtype) -> np.ndarray:
    """Integers of all sizes, with the corners of the type among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    array = rng.integers(least, most, shape, dtype=np.int64, endpoint=True)
    array = np.where(rng.random(shape) < 0.3, rng.integers(max(least, -9), 9, shape), array)
    corners = rng.choice([least, most, 0, 1, max(least, -1)], shape)
    return np.where(rng.random(shape) < 0.25, corners, array).astype(dtype)


BINARY = (
    *(np.add, np.subtract, np.multiply, np.floor_divide, np.remainder, np.minimum, np.maximum),
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift),
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
    *(np.logical_and, np.logical_or, np.logical_xor, np.fmax, np.fmin),
)
UNARY: dict[str, Callable[[Any], Any]] = {
    **{
        u.__name__: (lambda x, u=u: u(x))
        for u in (
            np.negative,
            np.positive,
            np.absolute,
            np.sign,
            np.invert,
            np.square,
            np.logical_not,
            np.bitwise_count,
        )
    },
    "bitwise_count": lambda x: np.bitwise_count(x),
    "cube": lambda x: x**3,
    "clip": lambda x: np.clip(x, 3, 90),
    "clip beyond": lambda x: x.clip(-5, 60),
    "divmod": lambda x: divmod(x, 7),
    "two words": lambda x: (x.astype(np.int64) * 1234567891 + 98765) >> 33,
    "rounded words": lambda x: (x.astype(np.int64) * 1234567891 + (1 << 35)) >> 36,
    "wide shift": lambda x: ((x.astype(np.int64) << 20) - 7) >> 25,
    "wide clip": lambda x: ((x.astype(np.int64) * 99999) >> 3).clip(-1000, 1000),
    "wide order": lambda x: x.astype(np.int64) * 65537 > 1 << 40,
    "low word": lambda x: (x.astype(np.int64) * 1000003).astype(np.int32),
}
CONSTANTS = (-128, -7, -1, 0, 1, 2, 3, 7, 10, 31, 60, 100, 127, 200, 255, 1000, 40000, 2**31, 3 * 10**9)
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, ax: x.sum(axis=ax),
    "sum32": lambda x, ax: x.sum(axis=ax, dtype=np.int32),
    "max": lambda x, ax: x.max(axis=ax),
    "min": lambda x, ax: np.min(x, axis=ax, keepdims=True),
    "any": lambda x, ax: x.any(axis=ax),
    "all": lambda x, ax: np.all(x, axis=ax),
    "prod32": lambda x, ax: np.prod(x, axis=ax, dtype=np.int32),
    "argmax": lambda x, ax: x.argmax(axis=_one(ax)),
    "argmin": lambda x, ax: np.argmin(x, axis=_one(ax), keepdims=True),
    "cumsum": lambda x, ax: np.cumsum(x, axis=_one(ax)),
    "cumsum32": lambda x, ax: np.cumsum(x, axis=_one(ax), dtype=np.int32),
    "cumprod32": lambda x, ax: np.cumprod(x, axis=_one(ax), dtype=np.int32),
    "sort": lambda x, ax: np.sort(x, axis=_one(ax)),
    "argsort": lambda x, ax: np.argsort(x, axis=_one(ax), kind="stable"),
    "ptp": lambda x, ax: np.ptp(x, axis=ax),
    "count_nonzero": lambda x, ax: np.count_nonzero(x, axis=ax),
    "mean": lambda x, ax: x.mean(axis=ax),
    "diff": lambda x, ax: np.diff(x, axis=-1 if _one(ax) is None else ax),
    "maximum.accumulate": lambda x, ax: np.maximum.accumulate(x, axis=_one(ax) or 0),
    "bitwise_xor.reduce": lambda x, ax: np.bitwise_xor.reduce(x, axis=ax),
    "add.reduce": lambda x, ax: np.add.reduce(x, axis=ax, dtype=np.int32),
    "subtract.outer": lambda x, ax: np.subtract.outer(x[0, 0], x[:, 1, 1]),
}


def _one(axis: Any) -> Any:
    return None if isinstance(axis, tuple) else axis


def set_box(x):
    y = x.copy()
    y[1:, ::2, 3] = x[:2, :2, 0]
    return y


def set_zeros(x):
    y = np.zeros_like(x)
    y[:, 1:3, 2:4] = x[:, :2, :2]
    y[0] = 1
    y[-1, -1] = x[0, 0]
    return y


def set_mask(x):
    y = x + x
    y[y > 1] = 0
    y += x
    return y


def set_chosen(x):
    y = x.copy()
    y[y > 1] |= 1
    mask = x[..., 0] > x[..., 1]
    y[mask] = y[mask] ^ x[mask]
    y[mask, 2] = x[0, 0, 0]
    return y, x[mask].sum(), y[y > 0].any()


def set_views(x):
    y = x.copy()
    late, turned, named = y[1:], y.T, y[:, 2]
    y[1:] += x[:2]
    late[0, 1] = x[0, 0]
    turned[0] = 1
    named[...] = x[:, 0]
    y[0, 0, 0] ^= y[0, 0, 1]
    return y, late, turned, named


def set_nested(x):
    y = x.copy()
    inner = y[1:][:, 1:3]
    square = np.swapaxes(y, 0, 1)[2]
    inner[0] = x[0, 1]
    y[2, 2] = inner[0, 0]
    square[:, ::2] = 0
    return inner, square, y[:, None]


def set_scalars(x):
    y, first = x.copy(), x[0, 0, 0]
    first |= x[0, 0, 1]
    y[0, 0, 0] = first
    part = y[0]
    part |= part[::-1]
    return first, y, part


def set_row(x):
    y, i = x.copy(), x[0, 0, :3].argmax()
    row = y[i]
    y[i] |= x[1]
    row[0] = x[2, 1]
    y[2] = x[0]
    y[0, i] ^= y[0, 0]
    return y, row, y[i, 1:3], y[:, i, 0], y[1, ..., i]


MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(6, -1),
    "T": lambda x: x.T,
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "stack": lambda x: np.stack([x, x], axis=1),
    "dstack": lambda x: np.dstack([x, x]),
    "column_stack": lambda x: np.column_stack([x[0, 0], x[0].T]),
    "split": lambda x: tuple(np.split(x, 2, axis=2)),
    "array_split": lambda x: tuple(np.array_split(x, 3, axis=1)),
    "pad": lambda x: np.pad(x, ((1, 2), (0, 1), (3, 0))),
    "pad 1": lambda x: np.pad(x, 1, constant_values=1),
    "pad reflect": lambda x: np.pad(x, 1, mode="reflect"),
    "pad edge": lambda x: np.pad(x, ((0, 0), (2, 2), (1, 0)), mode="edge"),
    "pad wrap": lambda x: np.pad(x, ((0, 0), (0, 0), (2, 2)), mode="wrap"),
    "flip": lambda x: np.flip(x),
    "flip 1": lambda x: np.flip(x, 1),
    "fliplr": lambda x: np.fliplr(x),
    "tile": lambda x: np.tile(x, (2, 1, 3)),
    "roll": lambda x: np.roll(x, 3),
    "roll 2": lambda x: np.roll(x, (1, -2), axis=(0, 2)),
    "repeat": lambda x: np.repeat(x, 3, axis=1),
    "repeat each": lambda x: np.repeat(x, [1, 0, 2, 1], axis=1),
    "index": lambda x: x[1],
    "index -1": lambda x: x[:, -1],
    "index step": lambda x: x[..., 1:5:2],
    "index back": lambda x: x[::-1, :, ::-2],
    "index None": lambda x: x[0, None, 1:, 2],
    "index list": lambda x: x[[2, 0, -1]],
    "index pairs": lambda x: x[:, [1, 0], [3, 2]],
    "index mask": lambda x: x[np.array([True, False, True])],
    "index array": lambda x: x[:, 1][np.array([[0, 1], [2, 0]])],
    "index scalar": lambda x: x[1, 2, 3],
    "index beyond": lambda x: x[:, 4],
    "squeeze": lambda x: np.squeeze(x[:1]),
    "take": lambda x: np.take(x, [3, 1], axis=-1),
    "ravel": lambda x: x.ravel()[5:],
    "hstack": lambda x: np.hstack([x, x]),
    "vstack": lambda x: np.vstack([x[0], x[1]]),
    "append": lambda x: np.append(x, x[:, :, :1], axis=2),
    "broadcast_to": lambda x: np.broadcast_to(x[:, :1], (3, 4, 6)),
    "sliding": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=2),
    "tril": lambda x: np.tril(x),
    "triu": lambda x: np.triu(x, 1),
    "rot90": lambda x: np.rot90(x[0]),
    "rot90 3": lambda x: np.rot90(x[0], 3),
    "outer": lambda x: np.outer(x[0, 0], x[0, 1]),
    "einsum": lambda x: np.einsum("ijk->kj", x),
    "tensordot": lambda x: np.tensordot(x, x, ([0, 1], [0, 1])),
    "inner": lambda x: np.inner(x[0], x[1]),
    "einsum 3": lambda x: np.einsum("ij,jk,k->i", x[0, :3, :4], x[0], x[1, 0]),
    "windows": lambda x: np.tensordot(
        np.lib.stride_tricks.sliding_window_view(x[0], (2, 3)), x[1, :2, :3], ([2, 3], [0, 1])
    ),
    "convolve": lambda x: np.convolve(x[0, 0], x[0, 1, :3]),
    "diagonal": lambda x: x.diagonal(),
    "diagonal 1": lambda x: np.diagonal(x, 1, 2, 1),
    "diag": lambda x: np.diag(x[0, 0], -1) + np.diag(x[1, :4, :4]).sum(dtype=np.int32),
    "trace": lambda x: x.trace(1),
    "delete": lambda x: np.delete(x, [1, 2], axis=2),
    "resize": lambda x: np.resize(x, (5, 17)),
    "searchsorted": lambda x: np.searchsorted(np.array([-5, 0, 7, 100]), x),
    "searchsorted right": lambda x: np.searchsorted(np.array([0, 1, 1, 60], np.uint8), x[0], side="right"),
    "isin": lambda x: np.isin(x, [0, 1, 200]),
    "matrix_power": lambda x: np.linalg.matrix_power(x[:, :4, :4], 5),
    "list max": lambda x: np.max([x[0], x[1]], axis=0),
    "list sum": lambda x: np.sum([x[0, 0], x[1, 1]], axis=0, dtype=np.int32),
    "narrow loop": lambda x: np.minimum(x, 3, dtype=np.int8),
    "narrow divide": lambda x: np.floor_divide(x, 3, dtype=np.int16),
    "wide loop": lambda x: np.multiply(x, x, dtype=np.int32),
    "long chain": lambda x: _turned(x, 40),
    "select": lambda x: np.select([x[0] > x[1], x[0] == x[1]], [x[0], x[2]], 1),
    "full_like": lambda x: np.full_like(x, 1) + x,
    "wrong shapes": lambda x: x + x[:, :2, :2],
    "wrong axis": lambda x: x.sum(axis=3),
    "wrong reshape": lambda x: x.reshape(5, -1),
    "packbits": lambda x: (
        np.packbits(x[0]),
        np.packbits(x > 1, axis=1, bitorder="little"),
        np.packbits(x, 2),
    ),
    "unpackbits": lambda x: (
        np.unpackbits(x, axis=2, count=13),
        np.unpackbits(x[0], bitorder="little", count=-5),
        np.unpackbits(x[0, 0], count=50),
    ),
    "kron": lambda x: (np.kron(x[0], x[1, :2, 0]), np.kron(np.array([1, 3], np.int8), x)),
    "block": lambda x: np.block([[x[0], x[1]], [x[2], np.zeros((4, 6), x.dtype)]]),
    "block flat": lambda x: np.block([x[0, 0], x[1, 1]]),
    "unstack": lambda x: np.unstack(x, axis=1)[2],
    "list reduce": lambda x: np.minimum.reduce([x[0], x[1], x[2]]),
    "list ufunc": lambda x: np.bitwise_xor([x[0, 0], x[1, 0]], [x[0, 1], x[2, 0]]),
    "diff prepend": lambda x: np.diff(x[0].astype(np.int16), prepend=0, append=x[1, :, :2].astype(np.int8)),
    "set chosen": set_chosen,
    "set box": set_box,
    "set zeros": set_zeros,
    "set mask": set_mask,
    "set views": set_views,
    "set nested": set_nested,
    "set scalars": set_scalars,
    "set row": set_row,
    "index planes": lambda x: x[x[0, 0, :2].astype(np.int32) & 1, x[0, 1, :2].astype(np.int32) & 3],
    "index beside slices": lambda x: x[1:, x[0, 0, :5].astype(np.int16) & 3, ::2],
}


def _turned(x, times):
    """A view of a view of a view, and so on, that is written to."""
    y = x.copy()
    view = y
    for _ in range(times):
        view = view[::-1]
    view[0] = x[2]
    return y, view


def matrix(seed: int) -> Iterator[Case]:
    """Each function on each type, or pair of types; each corner of NumPy on one type, another one for each seed."""
    rng = np.random.default_rng(seed)
    for ufunc in BINARY:
        yield from _pairs(rng, ufunc)
    for (name, function), a in itertools.product(UNARY.items(), TYPES):
        yield Case(f"{name} {a}", function, [values(rng, (4, 6), a)])
    for a, b in itertools.product(TYPES, TYPES):
        yield from _of_two_types(rng, a, b)
    for (name, reduce), a, axis in itertools.product(REDUCTIONS.items(), TYPES, (None, 0, -1, (0, 2))):
        array = values(rng, (3, 4, 5), a)
        yield Case(f"{name} {a} axis {axis}", lambda x, f=reduce, ax=axis: f(x, ax), [array])
    for (name, function), a in itertools.product(MOVES.items(), TYPES):
        yield Case(f"{name} {a}", function, [values(rng, (3, 4, 6), a)])
    for a, b in itertools.product(TYPES, INTEGERS):
        yield from _look_ups(rng, a, b)
    for name, shape, function in CORNERS:
        dtype = TYPES[rng.integers(7)]
        yield Case(f"{name} of {dtype}", function, [values(rng, shape, dtype)])


def _pairs(rng: np.random.Generator, ufunc: np.ufunc) -> Iterator[Case]:
    for a, b in itertools.product(TYPES, TYPES):
        shape = [(3, 5), (5,), (3, 1), ()][rng.integers(4)]
        label = f"{ufunc.__name__} {a} {b}"
        yield Case(label, lambda x, y: ufunc(x, y), [values(rng, (3, 5), a), values(rng, shape, b)])
    for a in TYPES:
        for k in map(int, rng.choice(CONSTANTS, 3)):
            label = f"{ufunc.__name__} {a} {k}"
            yield Case(label, lambda x, k=k: ufunc(x, k), [values(rng, (4, 3), a)])
            yield Case(f"{label} turned", lambda x, k=k: ufunc(k, x), [values(rng, (4, 3), a)])


def _of_two_types(rng: np.random.Generator, a: np.dtype, b: np.dtype) -> Iterator[Case]:
    def into(x, y):
        z = x.copy()
        z += y
        z[0] = y[1]
        return z

    kinds = f"{a} {b}"
    yield Case(f"astype {kinds}", lambda x: x.astype(b), [values(rng, (4, 6), a)])
    mask = values(rng, (4, 1), np.dtype(bool))
    yield Case(
        f"where {kinds}",
        lambda c, x, y: np.where(c, x, y),
        [mask, values(rng, (4, 3), a), values(rng, (3,), b)],
    )
    yield Case(f"matmul {kinds}", lambda x, y: x @ y, [values(rng, (3, 7), a), values(rng, (7, 4), b)])
    yield Case(f"matmul 3 {kinds}", lambda x, y: x @ y, [values(rng, (2, 3, 7), a), values(rng, (7,), b)])
    parts = [values(rng, (3, 2), a), values(rng, (3, 4), b)]
    yield Case(f"concatenate {kinds}", lambda x, y: np.concatenate([x, y], axis=1), parts)
    yield Case(f"into {kinds}", into, [values(rng, (3, 4), a), values(rng, (3, 4), b)])


def _look_ups(rng: np.random.Generator, a: np.dtype, b: np.dtype) -> Iterator[Case]:
    table, index = values(rng, (256,), a), values(rng, (5, 3), b)
    yield Case(f"look-up {a} by {b}", lambda x: table[x], [index])
    yield Case(f"look-up clipped {a} by {b}", lambda x: np.take(table[:100], x, mode="clip"), [index])
    arrays = [values(rng, (3, 9, 2), a), values(rng, (4,), b)]
    yield Case(f"take wrapped {a} by {b}", lambda v, x: np.take(v, x, axis=1, mode="wrap"), arrays)
    yield Case(f"index {a} by {b}", lambda v, x: v[x & 1, 3, x % 2], arrays)


# --- random programs

Step = tuple[str, tuple[int, ...], int]
"""A name, the numbers of the values it reads, a number that chooses its details."""


def _written(a, number):
    """A copy, written to by itself and by views of it."""
    y = a.copy()
    if not y.ndim or not y.size:
        return y
    view = (y[::-1], y[..., :1], y.T, y[None], y[1:])[number % 5]
    if number & 8:
        view |= view
    if view.size:
        view[..., 0] = y[..., 0].T if view.shape == y.T.shape and number % 5 == 2 else view[..., -1]
    y[0] ^= y[-1]
    return y + view.max() if view.size else y


def _added_at(a, b, number):
    """b added up by the places that a tells."""
    sums = np.zeros(7 + number, np.int32)
    np.add.at(sums, a.astype(np.int32) % (7 + number), b)
    return sums


def _into(a, b, c):
    """A sum into a copy, where c tells."""
    room = a.copy()
    return np.subtract(a, b, out=room, where=c > 0)


STEPS: dict[str, tuple[int, Callable[..., Any]]] = {
    **{u.__name__: (2, lambda n, a, b, u=u: u(a, b)) for u in BINARY},
    **{name: (1, lambda n, a, f=f: f(a)) for name, f in UNARY.items() if name != "divmod"},
    "constant": (1, lambda n, a: BINARY[n % 12](a, CONSTANTS[n % len(CONSTANTS)])),
    "astype": (1, lambda n, a: a.astype(TYPES[n % 7])),
    "where": (3, lambda n, a, b, c: np.where(a > 0, b, c)),
    "sum": (1, lambda n, a: a.sum(axis=n % a.ndim, dtype=np.int32, keepdims=bool(n & 8))),
    "max": (1, lambda n, a: a.max(axis=n % a.ndim)),
    "argmax": (1, lambda n, a: a.argmax(axis=n % a.ndim)),
    "cumsum": (1, lambda n, a: a.cumsum(axis=n % a.ndim, dtype=np.int32)),
    "sort": (1, lambda n, a: np.sort(a, axis=n % a.ndim)),
    "T": (1, lambda n, a: a.T),
    "reshape": (1, lambda n, a: a.reshape(-1)),
    "flip": (1, lambda n, a: np.flip(a, n % a.ndim)),
    "slice": (1, lambda n, a: a[n % 2 :: 1 + n % 3]),
    "last": (1, lambda n, a: a[..., : 1 + n % 4]),
    "item": (1, lambda n, a: a[n % len(a)]),
    "roll": (1, lambda n, a: np.roll(a, n % 5, axis=-1)),
    "pad": (1, lambda n, a: np.pad(a, 1, mode=("constant", "edge", "wrap")[n % 3])),
    "stack": (2, lambda n, a, b: np.stack([a, b], n % (a.ndim + 1))),
    "concatenate": (2, lambda n, a, b: np.concatenate([a, b], n % a.ndim)),
    "matmul": (2, lambda n, a, b: a @ b),
    "outer": (2, lambda n, a, b: np.outer(a.reshape(-1)[:4], b.reshape(-1)[:4])),
    # NumPy wraps an index by one subtraction after the other: one of 32 bits takes it minutes.
    "take": (2, lambda n, a, b: np.take(a, b.astype(np.int32) % 999 - 500, axis=n % a.ndim, mode="wrap")),
    "table": (1, lambda n, a: (np.arange(256, dtype=np.int16) * (n + 1))[a & 255]),
    "written": (1, lambda n, a: _written(a, n)),
    "fmod": (2, lambda n, a, b: np.fmod(a, b)),
    "float": (1, lambda n, a: (a > n - 30.5) | (a == float(n))),
    "sum where": (2, lambda n, a, b: np.sum(a, axis=n % a.ndim, where=b > n - 30, initial=n, dtype=np.int32)),
    "max where": (2, lambda n, a, b: np.max(a, axis=n % a.ndim, where=b > 0, initial=n)),
    "count": (1, lambda n, a: np.bincount(a.reshape(-1) & 15, minlength=16)),
    "add at": (2, lambda n, a, b: _added_at(a, b, n)),
    "into": (3, lambda n, a, b, c: _into(a, b, c)),
    "columns": (1, lambda n, a: a.ravel("F")),
    "ellipsis": (2, lambda n, a, b: np.einsum("...i,...i->...", a, b, dtype=np.int32, casting="unsafe")),
    "flat": (1, lambda n, a: a.flat[n % a.size :: 2]),
    "wide": (1, lambda n, a: (np.abs(np.pad(a.astype(np.int64) * 123456789, n % 3)) >> 31).astype(np.int32)),
    "masked": (2, lambda n, a, b: _masked(a, b)),
}
_MOST_ELEMENTS = 400


def _masked(a, b):
    y = a.copy()
    y[y > b] = 1
    return y


def programs(seed: int, count: int) -> Iterator[Case]:
    """Functions of 3 to 25 calls, of which NumPy runs each and Tosaic refuses none; every value is a result."""
    return (program(seed, number) for number in range(count))


def program(seed: int, number: int) -> Case:
    """One of them."""
    chooser = _Chooser(np.random.default_rng([seed, 47, number]))
    trace_function(chooser.choose, {f"x{i}": each for i, each in enumerate(chooser.arrays)})
    return of_steps(seed, number, chooser.steps)


class _Chooser:
    """Chooses the steps of a program while it is traced once: those that NumPy runs, and Tosaic does not refuse."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.arrays, self.steps = rng, _arguments(rng), []

    def choose(self, *traced: Any) -> Any:
        values, found = list(self.arrays), list(traced)
        for _ in range(0 if self.steps else int(self.rng.integers(3, 26))):
            name = list(STEPS)[self.rng.integers(len(STEPS))]
            operands = tuple(int(i) for i in self.rng.integers(0, len(values), STEPS[name][0]))
            step = (name, operands, int(self.rng.integers(0, 64)))
            value, array = _next(values, step), _next(found, step)
            if value is not None and _is_kept(value) and array is not None and _fits(array):
                self.steps.append(step)
                values.append(value)
                found.append(array)
        return traced[0]


def _next(found: Sequence[Any], step: Step) -> Any:
    """What a step gives; None where it raises an error."""
    name, operands, number = step
    try:
        with np.errstate(all="ignore"):
            return STEPS[name][1](number, *(found[i] for i in operands))
    except Exception:
        return None


def _is_kept(value: Any) -> bool:
    kind, size, rank = np.asarray(value).dtype.kind, np.size(value), np.ndim(value)
    return kind in "iub" and 0 < size <= _MOST_ELEMENTS and rank <= 4


def _fits(array: Any) -> bool:
    """Whether it may be a result: of 64 bits only where the values fit 32."""
    limits = np.iinfo(np.int32)
    interval = getattr(array, "interval", None)
    return array.dtype.itemsize < 8 or (
        interval is not None and limits.min <= interval.low <= interval.high <= limits.max
    )


def of_steps(seed: int, number: int, steps: Sequence[Step]) -> Case:
    """The steps, with the arguments of a random program."""
    label = f"program {seed}.{number}: {list(steps)}"
    arrays = _arguments(np.random.default_rng([seed, 47, number]))
    return Case(label, lambda *x: _program(steps, x), arrays, steps)


def _arguments(rng: np.random.Generator) -> list[np.ndarray]:
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    return [values(rng, each, TYPES[rng.integers(7)]) for each in (shape, shape, shape[-1:])]


def _program(steps: Sequence[Step], arrays: Sequence[Any]) -> Any:
    """Runs the steps; the number of a value counts around, so that a program without some of its steps is one too."""
    found = list(arrays)
    for name, operands, number in steps:
        found.append(STEPS[name][1](number, *(found[i % len(found)] for i in operands)))
    return tuple(found[len(arrays) :]) or (arrays[0],)
