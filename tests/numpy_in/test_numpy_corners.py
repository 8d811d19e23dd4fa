"""What NumPy does at its corners: each function gives NumPy's integers, on golden and the emulator."""

import numpy as np
import pytest
from numpy_cases import Case, judge, values
from numpy_corners import CORNERS

import tosaic

IMAGE = np.random.default_rng(7).integers(0, 256, (12, 10), np.uint8)
LINE = np.random.default_rng(8).integers(-(2**31), 2**31, 11).astype(np.int32)
WIDE = np.random.default_rng(9).integers(-(2**15), 2**15, (3, 4)).astype(np.int16)


def product_of_a_type(x):
    room = np.zeros((3, 3), np.int32)
    np.matmul(x, x.T, out=room, dtype=np.int32)
    return np.matmul(x, x.T, dtype=np.int32), room


def out_by_its_place(x):
    sums, cut = np.zeros(4, np.int32), np.zeros((3, 4), np.int16)
    np.sum(x, 0, np.int32, sums)
    np.clip(x, -9, 9, cut)
    return sums, cut


def out_is_what_is_read(x):
    y = x.copy()
    np.clip(y, -100, 100, out=y)
    np.add(y, 1, out=y, where=y > 0)
    return y


def asked_for_its_type(x):
    return x + 1 if isinstance(x, np.ndarray) and not isinstance(x[0, 0], np.ndarray) else x


def squares_of_bools(x):
    bits = x > 0
    return bits**2, bits ** np.array(2), x ** np.array(2), x**3


def numbers_beyond(x):
    return np.where(x > 0, 100000, x), x > 2**70, x < -(2**40), x % np.int64(2**40) > 5


def floats_beside(x):
    ends = np.array([0.5, -1e30, np.nan, 7.0])
    return x > 127.5, x == 3.0, x <= ends, 0.5 < x, x != np.float32(16777217)


def called_types(x):
    return np.int32(x) * 70000, np.uint8(x), np.int16(x[0, 0]) + x


def chosen_sums(x):
    return (
        x.sum(axis=0, where=x > 0, initial=-3),
        x.max(initial=5, where=x < 0, axis=1),
        np.any(x, where=x > 9),
    )


def joined_texts(x):
    return np.r_[x[0], 0, x[1]], np.c_[x[0], x[1]], x.mT, x.ravel("F")


@pytest.mark.parametrize(
    "function",
    [product_of_a_type, out_by_its_place, out_is_what_is_read, asked_for_its_type, squares_of_bools]
    + [numbers_beyond, floats_beside, called_types, chosen_sums, joined_texts],
    ids=lambda each: each.__name__,
)
def test_calls_of_int16(function):
    tosaic.function(function).check(WIDE)


def equalized(x):
    sums = np.bincount(x.ravel(), minlength=256).cumsum()
    return ((sums - sums[0]) * 255 // (x.size - sums[0] + 1)).astype(np.uint8)[x]


def histograms(x):
    edges = np.array([0.0, 40.5, 41, 200, 256])
    return np.histogram(x, 16, (0, 256))[0], np.histogram(x, edges)[0], np.digitize(x, [200, 100, 3])


def counted_at(x):
    counts, sums, most = np.zeros(256, np.int32), np.zeros((16, 4), np.int32), np.zeros(16, np.uint8)
    np.add.at(counts, x.ravel(), 1)
    np.add.at(sums, (x >> 4, x & 3), x)
    np.maximum.at(most, x.ravel() >> 4, x.ravel())
    return counts, sums, most


def scattered(x):
    order, marked = np.argsort(x[0], kind="stable"), np.zeros(256, bool)
    ranks, last = np.empty(10, np.int64), np.empty_like(np.arange(16))
    ranks[order] = np.arange(10)
    marked[x] = True
    last[:] = 0
    last[x.ravel() & 15] = np.arange(120)
    pairs = np.zeros((16, 16), np.uint8)
    pairs[x >> 4, x & 15] += 1
    return ranks, marked, last, pairs


def written(x):
    y = x.copy()
    np.fill_diagonal(y, 3)
    np.putmask(y, y > 200, 9)
    np.put_along_axis(y, y.argmax(1, keepdims=True), 0, 1)
    y.flat[5:9] = 1
    y[0] = 1.9
    return y


@pytest.mark.parametrize(
    "function", [equalized, histograms, counted_at, scattered, written], ids=lambda each: each.__name__
)
def test_calls_of_an_image(function):
    tosaic.function(function).check(IMAGE)


def moves_of_two_words(x):
    y = x.astype(np.int64) * 3
    moved = np.where(y > 2**33, np.roll(y, 2), np.pad(y[2:], 1)[[*range(10), 3]])
    return (
        (moved >> 8).astype(np.int32),
        (np.cumsum(x) >> 3).astype(np.int32),
        (np.abs(-y) & 0xFFFFFF).astype(np.int32),
    )


def test_moves_and_bits_of_64_bit_values():
    tosaic.function(moves_of_two_words).check(LINE)


@pytest.mark.parametrize(
    "function,error",
    [
        (lambda x: np.pad(x, 1, constant_values=70000), OverflowError),
        (lambda x: np.diff(x, -1), ValueError),
        (lambda x: np.sort(x, order="a"), ValueError),
        (lambda x: np.max(x, where=x > 0), ValueError),
        (lambda x: np.sum(x, axis=0, out=np.zeros(7, np.int32)), ValueError),
        (lambda x: np.digitize(x, [1, 3, 2]), ValueError),
    ],
)
def test_errors_are_numpys(function, error):
    with pytest.raises(error) as of_numpy:
        function(WIDE)
    with pytest.raises(error) as of_tosaic:
        tosaic.trace(function, x=WIDE)
    assert str(of_tosaic.value) == str(of_numpy.value)


def test_advice_of_bincount_works():
    with pytest.raises(
        tosaic.TraceError, match=r"np.bincount of values in -32768..32767 with minlength=0: .*np.clip"
    ):
        tosaic.trace(lambda x: np.bincount(x.ravel()), x=WIDE)
    tosaic.function(lambda x: np.bincount(np.clip(x.ravel(), 0, 9), minlength=10)).check(WIDE)


def test_out_of_another_type_is_refused_where_numpys_result_depends_on_it():
    def greatest(x):
        room = np.zeros(4, np.int8)
        np.max(x, axis=0, out=room)
        return room

    with pytest.raises(
        tosaic.TraceError, match="out= of np.max is int8, its array int16: astype one of them"
    ):
        tosaic.trace(greatest, x=WIDE)
    tosaic.function(lambda x: np.max(x.astype(np.int8), axis=0, out=np.zeros(4, np.int8))).check(WIDE)


@pytest.mark.long
def test_a_slice_of_the_corners():
    """Every eleventh on int16 and uint8; the type matrix of the campaign has all on all types."""
    wrong, rng = {}, np.random.default_rng(3)
    for name, shape, function in CORNERS[::11]:
        for dtype in (np.dtype(np.int16), np.dtype(np.uint8)):
            verdict = judge(Case(name, function, [values(rng, shape, dtype)]))
            if verdict.kind == "WRONG":
                wrong[f"{name} of {dtype}"] = verdict.text
    assert wrong == {}
