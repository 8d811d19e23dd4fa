"""Strict mode follows sums term by term: what it adds up is what the operator computes, for all pads and strides."""

import numpy as np
import pytest

from tosaic.compiler.ir import DType
from tosaic.errors import UnpredictableError
from tosaic.sim.golden import evaluate_operator, strictly
from tosaic.sim.golden.arithmetic import product_dtype
from tosaic.sim.golden.correlation import (
    Spread,
    channel_terms,
    correlate,
    correlate_channels,
    correlate_transposed,
    correlation_terms,
    transposed_terms,
)
from tosaic.sim.golden.taps import TapWindow

PADS = ([0, 0, 0, 0], [1, 2, 0, 3], [2, 0, 1, 0])
STEPS = ((1, 1), (2, 3), (3, 2))


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape)


def added_up(terms, like):
    sums = np.zeros_like(like)
    for where, values in terms:
        sums[where] += values
    return sums


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("stride", STEPS)
def test_terms_add_up_to_the_sums(pad, stride):
    image = integers(2, 5, 6, 3)
    for dilation in ((1, 1), (2, 1), (1, 2)):
        weight = integers(4, 2, 3, 3)
        window = TapWindow(pad, stride, dilation)
        sums = correlate(image, weight, window)
        assert (added_up(correlation_terms(image, weight, window), sums) == sums).all()
        weight = integers(2, 3, 3, 2)
        sums = correlate_channels(image, weight, window)
        assert (added_up(channel_terms(image, weight, window), sums) == sums).all()


@pytest.mark.parametrize("pad", (*PADS, [-1, 0, 1, -1], [0, -1, -1, 2], [1, -2, 0, -1], [0, -1, 2, -2]))
@pytest.mark.parametrize("stride", STEPS)
def test_transposed_terms_add_up_to_the_sums(pad, stride):
    image, weight = integers(2, 3, 4, 3), integers(2, 2, 3, 3)
    sums = correlate_transposed(image, weight, Spread(pad, stride))
    rows = (3 - 1) * stride[0] + pad[0] + pad[1] + 2
    columns = (4 - 1) * stride[1] + pad[2] + pad[3] + 3
    assert sums.shape == (2, rows, columns, 2)
    assert (added_up(transposed_terms(image, weight, Spread(pad, stride)), sums) == sums).all()


@pytest.mark.parametrize(
    "a, b, terms, held",
    [
        (1 << 26, 1 << 26, 1, np.float64),
        (1 << 26, 1 << 26, 2, np.int64),
        (-(1 << 26), (1 << 27) - 1, 1, np.float64),
        (-(1 << 26), 1 << 27, 1, np.int64),
        (0, 1 << 52, 1, np.float64),
        (0, 1 << 53, 1, np.int64),
    ],
)
def test_products_are_held_exactly(a, b, terms, held):
    """They are held in float64 while no sum reaches 2^53."""
    assert product_dtype(np.array([a, 0]), np.array([0, b]), terms) == held


def test_the_largest_window_of_int16_is_looked_at():
    """Sums of 256 x 256 elements of -32768 are just within int32; a row more is not."""
    zero = np.zeros(1, np.int16)
    attributes = {"stride": [1, 1], "pad": [0, 0, 0, 0], "acc_type": DType.INT32}

    def mean(rows):
        operands = [np.full((1, rows, 256, 1), -32768, np.int16), zero, zero]
        with strictly():
            return evaluate_operator(
                "AVG_POOL2D", operands, attributes | {"kernel": [rows, 256]}, [DType.INT16]
            )

    assert mean(256)[0].item() == -32768
    with pytest.raises(UnpredictableError, match="AVG_POOL2D"):
        mean(257)


def test_leaving_strict_mode_leaves_it():
    broken = ("ADD", [np.array([2**31 - 1], np.int32), np.array([1], np.int32)], {}, [DType.INT32])
    with strictly(), pytest.raises(UnpredictableError):
        evaluate_operator(*broken)
    assert evaluate_operator(*broken)[0].tolist() == [-(2**31)]
