"""What cannot be traced: one line with the user's file and line, what, the bound, and a way out that works."""

import inspect
import time

import numpy as np
import pytest

import tosaic
from tosaic.compiler.ir import write_tosa

TABLE = np.arange(16, dtype=np.int16)
SEEN = []


def truth(x):
    return x if x[0] > 3 else x + 1


def chained(x):
    return 1 < x[0] < 5


def greatest(x):
    return max(x[0], x[1])


def counted(x):
    return [i for i in range(x[0])]


def number(x):
    return x + int(x[0])


def item(x):
    return x[0].item() + x


def quotient(x):
    return x / 2


def floats(x):
    return x * 0.5


def average(x):
    return x.mean()


def middle(x):
    return np.median(x)


def root(x):
    return np.sqrt(x)


def mask(x):
    return x[x > 3]


def places(x):
    return np.nonzero(x)


def places_method(x):
    return x.nonzero()


def outside(x):
    return TABLE[x]


def wide(x):
    return x.astype(np.int64) << 40


def wide_sum(x):
    return (x.astype(np.uint32) * 65536).sum()


def exponent(x):
    return 2**x


def unstable(x):
    return np.argsort(x)


def written(x):
    x[0] = 3
    return x


def written_global(x):
    TABLE[0] = 3
    return x


def scattered(x):
    y = np.zeros((4, 4), x.dtype)
    y[x & 3, 1:3] = 1
    return y


def beside_reshape(x):
    y = x.copy()
    z = y.reshape(2, 2)
    y[0] = 1
    return y, z


def into_array(x):
    np.add(x, 1, out=HELD.out)
    return x


class HELD:
    out = np.zeros(4, np.int8)
    table = np.arange(16, dtype=np.int16) ** 2


def held_table(x):
    return HELD.table[x & 15]


def held_result(x):
    HELD.out[0] = x[0]
    return x


def unsupported(x):
    return np.lexsort((x,))


def keyword(x):
    return np.searchsorted(np.array([1, 2]), x, sorter=[0, 1])


def random(x):
    return x + np.random.default_rng().integers(0, 100, 4).astype(np.int8)


def clock(x):
    return x + np.int8(time.perf_counter_ns() % 100)


def growing(x):
    SEEN.append(0)
    return x[: 1 + len(SEEN) % 3]


def deep(x):
    return x.reshape(1, 1, 1, 1, 2, 1, 2)


REFUSALS = [
    (truth, "the truth of a traced array (traced bool[] in 0..1)", "use np.where"),
    (chained, "the truth of a traced array", "np.where"),
    (greatest, "the truth of a traced array", "np.minimum"),
    (
        counted,
        "an index, a shape or a range() of a traced array (traced int8[] in -128..127)",
        "tosaic.while_loop",
    ),
    (number, "int() of a traced array", "use astype"),
    (item, "item() of a traced array", "keep it an array"),
    (quotient, "np.divide gives floats", "// or tosaic.rescale for a quotient"),
    (floats, "a constant that is no integer meets a traced array in np.multiply", "round it first"),
    (
        average,
        "ndarray.mean is not supported on a traced array: it gives floats",
        "x.sum(axis, dtype=np.int32) // n",
    ),
    (middle, "np.median is not supported", "np.sort(x, axis)[n // 2]"),
    (root, "np.sqrt gives floats", "a table and np.take for a curve"),
    (mask, "a traced mask as an index: the result's shape would depend on values", "use np.where"),
    (
        places,
        "np.nonzero is not supported on a traced array: its shape depends on values",
        "np.where keeps the shape",
    ),
    (
        places_method,
        "ndarray.nonzero is not supported on a traced array: its shape",
        "np.where keeps the shape",
    ),
    (
        outside,
        "an index may be -128..127 on an axis of 16: NumPy raises IndexError",
        "np.take(..., mode='clip' or",
    ),
    (wide, "a result of NumPy's type int64 may be -140737488355328..139637976727552", "tosaic.rescale"),
    (wide_sum, "a result of NumPy's type uint64 may be 0..", "use dtype=np.int32 (wraps)"),
    (exponent, "np.power with a traced exponent: its result has no bound", "a table and np.take"),
    (unstable, "np.argsort: NumPy's default leaves the order of equal elements open", "say kind='stable'"),
    (written, "argument 'x' is written to: NumPy would change the caller's array", "begin with x = x.copy()"),
    (written_global, "an array from outside of the function is written to", "use a .copy()"),
    (
        scattered,
        "assignment through traced indices beside slices of a part is not supported",
        "write it with np.where",
    ),
    (beside_reshape, "an array is written to beside a reshape of it", "make one a .copy()"),
    (into_array, "np.add of a traced array into an ndarray", "np.zeros_like of a traced array"),
    (held_table, "conversion to an ndarray of a traced array (traced int8[4] in 0..15)", "np.take(table, x)"),
    (held_result, "int() of a traced array", "make that by np.zeros_like(x)"),
    (unsupported, "np.lexsort is not supported on a traced array", ""),
    (keyword, "np.searchsorted on a traced array: got an unexpected keyword argument 'sorter'", "lists"),
    (deep, "an array of rank 7: TOSA's tensors have at most 6", "reshape first"),
]


@pytest.mark.parametrize("function,what,way_out", REFUSALS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_refusal_names_line_reason_and_way_out(function, what, way_out):
    with pytest.raises(tosaic.TraceError) as caught:
        tosaic.trace(function, x=((4,), np.int8))
    lines, first = inspect.getsourcelines(function)
    place, _, text = str(caught.value).partition(": ")
    file, _, line = place.partition(":")
    assert file == "test_numpy_refusals.py" and first <= int(line) < first + len(lines)
    assert text.startswith(what) and way_out in text and "\n" not in text
    assert caught.value.exit_code == 1 and isinstance(caught.value, tosaic.UnsupportedError)


@pytest.mark.parametrize("function", [random, clock, growing], ids=lambda each: each.__name__)
def test_a_function_that_is_not_the_same_twice_is_refused(function):
    first = inspect.getsourcelines(function)[1]
    wanted = rf"^test_numpy_refusals.py:{first}: {function.__name__} is not the same when it is traced again \(.+\): it"
    with pytest.raises(tosaic.TraceError, match=wanted):
        for _ in range(20):  # a clock may show the same hundredth twice
            tosaic.trace(function, x=((4,), np.int8))


def test_two_traces_are_equal():
    def both(x, y):
        return {"sum": (x + y).sum(), "order": np.sort(x), "product": x @ y.astype(np.int32)}

    specs = {"x": ((9,), np.int16), "y": ((9,), np.uint8)}
    first, second = (tosaic.trace(both, **specs) for _ in range(2))
    assert write_tosa(first) == write_tosa(second)
    assert first.outputs == ["sum", "order", "product"] and first.declared == second.declared


WAYS_OUT = [
    (lambda x: np.where(x[0] > 3, x, x + np.int8(1)), truth),
    (lambda x: np.take(TABLE, x, mode="clip"), outside),
    (lambda x: TABLE[x & 15], outside),
    (lambda x: np.take(HELD.table, x & 15), held_table),
    (lambda x: np.sort(x)[2], middle),
    (lambda x: x.sum(dtype=np.int32) // 4, average),
    (lambda x: np.where(x > 3, x, np.int8(0)), mask),
    (lambda x: tosaic.rescale(x, 3, 2), quotient),
    (lambda x: np.argsort(x, kind="stable"), unstable),
    (lambda x: np.array([1 << k for k in range(8)], np.int16)[x & 7], exponent),
]


@pytest.mark.parametrize("function,instead_of", WAYS_OUT, ids=lambda each: each.__name__)
def test_the_ways_out_work(function, instead_of):
    tosaic.function(function).check(np.array([-7, 3, 100, 4], np.int8))


@pytest.mark.parametrize(
    "specs,more,wanted",
    [
        ({"x": "int9[3]"}, {}, r"^x='int9\[3\]' is no shape and type: write x=\(\(240, 320, 3\), np.uint8\)"),
        (
            {"x": ((0, 3), np.int8)},
            {},
            r"^argument 'x' has shape \[0, 3\]: TOSA has 1 to 6 axes, with elements$",
        ),
        (
            {"x": "int8[3]", "z": "int8"},
            {},
            r"^the function's arguments are x; there are shapes and types of x, z: give",
        ),
        (
            {"x": "int8[3]"},
            {"ranges": {"x": (0, 300)}},
            r"^ranges of 'x': \(0, 300\) is no pair .* in -128..127$",
        ),
        ({"x": "int8[3]"}, {"ranges": {"y": (0, 3)}}, r"^ranges has 'y', which is no argument: there is x$"),
        ({"x": "int8[3]"}, {"states": ("s",)}, r"^state 's' is no argument with a spec: there is x$"),
    ],
)
def test_wrong_specs(specs, more, wanted):
    with pytest.raises(tosaic.InputError, match=wanted):
        tosaic.trace(lambda x: x, **more, **specs)


def test_what_numpy_refuses_is_numpys_own_error():
    for function, error in (
        (lambda x: x + np.zeros(3, np.int8), ValueError),
        (lambda x: x[7], IndexError),
        (lambda x: x + 300, OverflowError),
        (lambda x: x**-1, ValueError),
        (lambda x: x.sum(axis=2), np.exceptions.AxisError),
        (lambda x: x.no_such_thing, AttributeError),
        (lambda x: np.take(x, [9]), IndexError),
    ):
        for run in (
            lambda f=function: f(np.ones(4, np.int8)),
            lambda f=function: tosaic.trace(f, x="int8[4]"),
        ):
            with pytest.raises(error):
                run()
