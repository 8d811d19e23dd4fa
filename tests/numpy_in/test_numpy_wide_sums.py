"""Sums and products in NumPy's int64 that need more than 32 bits."""

import numpy as np
import pytest
from numpy_cases import Case, judge, values

import tosaic

RNG = np.random.default_rng(7)
X16, Y16 = (values(RNG, (60,), np.dtype(np.int16)) for _ in range(2))
X32, Y32 = (values(RNG, (4, 9), np.dtype(np.int32)) for _ in range(2))
U16 = values(RNG, (3, 5), np.dtype(np.uint16))
TAPS = np.array([-32768, 32767, 1234, -32768, 5])


def energy(x, y):
    return (x.astype(np.int64) ** 2).sum() >> 7


def energies(x, y):
    return (x.astype(np.int64) * (y >> 4)).sum(axis=1, keepdims=True) >> 31, x.sum(axis=0) >> 3


def correlation(x, y):
    return (x.astype(np.int64) @ y.astype(np.int64)) >> 16, np.vdot(x.astype(np.int64), y) > 1 << 33


def filtered(x, y):
    return np.clip((np.convolve(x.astype(np.int64), TAPS, "same") + (1 << 14)) >> 15, -32768, 32767).astype(
        np.int16
    )


def products(x, y):
    return (x.astype(np.int64) @ (y.T >> 8).astype(np.int64)) >> 33, np.einsum(
        "ij,ij->i", x.astype(np.int64), y >> 3
    ) >> 34


def unsigned(x, y):
    return (x.astype(np.int64) @ y.T) >> 4, x.astype(np.int64).sum(dtype=np.int64)


@pytest.mark.parametrize(
    "function, x, y",
    [
        (energy, X16, Y16),
        (correlation, X16, Y16),
        (filtered, X16, Y16),
        (energies, X32, Y32),
        (products, X32, Y32),
        (unsigned, U16, U16),
    ],
)
def test_sums_of_more_than_32_bits_are_numpys(function, x, y):
    verdict = judge(Case(function.__name__, function, [x, y]))
    assert verdict.kind == "exact", verdict.text


def test_the_least_and_the_greatest_sums():
    for end in (-32768, 32767):
        x = np.full(60, end, np.int16)
        for function in (energy, correlation, filtered):
            assert judge(Case(function.__name__, function, [x, x[::-1]]), config="nano").kind == "exact"


def test_a_wide_result_is_refused_with_its_function():
    function = tosaic.function(lambda x: x.astype(np.int64).sum())
    line = function.__wrapped__.__code__.co_firstlineno
    with pytest.raises(tosaic.TraceError) as caught:
        function.graph(x="int32[9]")
    assert str(caught.value) == (
        f"test_numpy_wide_sums.py:{line}: result y0 is int64[] in -19327352832..19327352823: an output of the "
        "accelerator has 32 bits; .astype(np.int32) wraps, >> and np.clip narrow"
    )
    x = np.full(9, 2**31 - 1, np.int32)
    for narrowed in (
        lambda x: x.sum().astype(np.int32),
        lambda x: x.sum() >> 5,
        lambda x: np.clip(x.sum(), 0, 99),
    ):
        assert judge(Case("narrowed", narrowed, [x]), config="nano").kind == "exact"
