"""Ranges that calibration chooses, against the same sums written as loops over bins and levels."""

import math

import numpy as np
import pytest

from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.compiler.quantizer import calibration
from tosaic.compiler.quantizer.calibration import (
    BINS,
    Channels,
    Statistics,
    choose_range,
    wanted_channels,
)
from tosaic.compiler.quantizer.equalize import product_factors

LEVELS = 256


def squared_error(histogram: list[int], low: float, high: float, first: float, last: float) -> float:
    """Returns the squared error of rounding for values inside, a twelfth of a step's square, and of the distance for
    those outside. Values in the bin of 0 are exact."""
    width, step = (high - low) / len(histogram), (last - first) / 255
    total = 0.0
    for number, count in enumerate(histogram):
        centre = low + width * (number + 0.5)
        distance = max(first - centre, centre - last, 0.0)
        holds_zero = low <= 0 <= high and number == min(int(-low / width), len(histogram) - 1)
        total += 0.0 if holds_zero else count * (distance**2 if distance else step**2 / 12)
    return total


def divergence(histogram: list[int], low: float, high: float, first: float, last: float) -> float:
    """Each level spreads what it holds evenly over its bins that hold anything; what is outside goes to the last bins
    inside. A bin that no level spreads to counts 20 times."""
    width = (high - low) / len(histogram)
    zero = min(max(int(-low / width), 0), len(histogram) - 1)
    centres = [low + width * (number + 0.5) for number in range(len(histogram))]
    inside = [number for number, centre in enumerate(centres) if first <= centre <= last]
    counts = [0 if number == zero else count for number, count in enumerate(histogram)]
    if not any(counts[number] for number in inside):
        return math.inf
    clipped = {number: float(counts[number]) for number in inside}
    clipped[inside[0]] += sum(counts[: inside[0]])
    clipped[inside[-1]] += sum(counts[inside[-1] + 1 :])
    levels: dict[int, list[int]] = {}
    for number in inside:
        if counts[number]:
            levels.setdefault(round((centres[number] - first) / (last - first) * 255), []).append(number)
    spread = {
        number: sum(counts[each] for each in bins) / len(bins) for bins in levels.values() for number in bins
    }
    whole, spread_whole = sum(clipped.values()), sum(spread.values())
    total = 0.0
    for number, count in clipped.items():
        p, q = count / whole, spread.get(number, 0.0) / spread_whole
        if p > 0:
            total += p * math.log(p / q) if q > 0 else 20.0 * p
    return total


def histogram_of(kind: str) -> list[int]:
    dice = np.random.default_rng(6)
    values = {
        "even": dice.integers(1, 9, 64),
        "sparse": dice.integers(0, 2, 64) * dice.integers(0, 50, 64),
        "tails": np.rint(200 * np.exp(-np.abs(np.arange(64) - 20) / 6)).astype(int),
        "one": np.arange(64) == 40,
    }[kind]
    return [int(value) for value in values]


SPANS = [(-1.0, 3.0), (0.0, 2.0), (-2.0, 0.0), (0.5, 2.5), (-3.0, -0.5)]
PARTS = [(1.0, 1.0), (0.6, 0.7), (0.3, 0.35)]


@pytest.mark.parametrize("kind", ["even", "sparse", "tails", "one"])
@pytest.mark.parametrize("low, high", SPANS)
def test_errors_of_a_range(kind: str, low: float, high: float) -> None:
    histogram = histogram_of(kind)
    for part_low, part_high in PARTS:
        first, last = min(low, 0.0) * part_low, max(high, 0.0) * part_high
        arguments = (np.array(histogram), low, high, first, last)
        found = calibration.squared_error(*arguments)
        assert found == pytest.approx(squared_error(histogram, low, high, first, last))
        wanted = divergence(histogram, low, high, first, last)
        assert calibration.divergence(*arguments) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("method, cost", [("mse", squared_error), ("entropy", divergence)])
@pytest.mark.parametrize("low, high", SPANS)
def test_the_range_of_the_least_error(method: str, cost, low: float, high: float) -> None:
    """It is sought from all of the range seen to 0.3 of it, in steps of a twentieth below zero and a fortieth
    above."""
    histogram = histogram_of("tails")
    lows = [1 - 0.05 * number for number in range(15)] if low < 0 else [0.0]
    highs = [1 - 0.025 * number for number in range(29)] if high > 0 else [0.0]
    candidates = [(min(low, 0.0) * a, max(high, 0.0) * b) for a in lows for b in highs]
    wanted = min(candidates, key=lambda each: cost(histogram, low, high, *each))
    assert choose_range(np.array(histogram), low, high, method) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "outer, inner, wanted",
    [
        # One of 100,000 at each end is left out, and no more.
        (1, 99_998, (-3.0, 4.0)),
        (0, 100_000, (-3.0, 4.0)),
        (2, 99_996, (-4.0, 5.0)),
    ],
)
def test_percentiles_leave_out_one_of_100000(outer: int, inner: int, wanted: tuple[float, float]) -> None:
    """Bins of width 1 from -4 to 5; those next to the ends hold nearly all."""
    histogram = np.array([outer, inner // 2, 0, 0, 0, 0, 0, inner // 2, outer])
    assert choose_range(histogram, -4.0, 5.0, "percentile") == wanted
    # 0 is inside, whatever is left out.
    assert choose_range(histogram, 1.0, 10.0, "percentile")[0] == 0.0
    assert choose_range(histogram, -10.0, -1.0, "percentile")[1] == 0.0


def test_histograms_are_between_the_extremes_of_all_runs() -> None:
    found, values = Statistics(), np.linspace(-1.0, 1.0, 5)
    found.observe({"x": values, "flat": np.ones(3)}, {})
    for _ in range(2):
        found.count({"x": values, "flat": np.ones(3), "unknown": values})
    assert set(found.histograms) == {"x"}
    filled = np.flatnonzero(found.histograms["x"])
    assert filled.tolist() == [0, BINS // 4, BINS // 2, 3 * BINS // 4, BINS - 1]
    assert found.histograms["x"][filled].tolist() == [2] * 5
    assert found.range("x", "percentile") == (-1.0, 1.0) == found.range("x")
    assert found.range("flat", "percentile") == (0.0, 1.0)


def test_what_is_seen_of_one_step_is_seen_of_all() -> None:
    found = Statistics({"a": -1.0, "b": -2.0, "c": -9.0}, {"a": 5.0, "b": 3.0, "c": 9.0})
    for number, name in enumerate("ab"):
        line = np.full(2, number + 1.0)
        found.channels[name, (1,)] = Channels(-line, line, line, line, 2)
        found.histograms[name] = np.full(3, number + 1)
    found.channels["a", (0,)] = Channels(*[np.zeros(1)] * 4)
    found.pool([["a", "b", "unseen"], ["nothing"]])
    found.pool_histograms([["a", "b", "unseen"], ["nothing"]])
    assert found.low == {"a": -2.0, "b": -2.0, "c": -9.0} and found.high == {"a": 5.0, "b": 5.0, "c": 9.0}
    both = found.channels["a", (1,)]
    assert both is found.channels["b", (1,)]
    assert (both.low.tolist(), both.high.tolist(), both.total.tolist(), both.count) == (
        [-2] * 2,
        [2] * 2,
        [3] * 2,
        4,
    )
    assert found.histograms["a"].tolist() == found.histograms["b"].tolist() == [3, 3, 3]
    assert set(found.histograms) == {"a", "b"} and ("unseen", (1,)) not in found.channels


def test_channels_that_are_asked_for() -> None:
    build = GraphBuilder("channels")
    image = build.input("image", (1, 3, 3, 4), DType.FP32)
    zeros = [build.constant([0.0], DType.FP32) for _ in range(2)]
    weight, bias = build.input("w", (2, 1, 1, 4), DType.FP32), build.constant([0.0, 0.0], DType.FP32)
    how = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.FP32, local_bound=False)
    build.add("CONV2D", [image, weight, bias, *zeros], **how)
    a, b = build.input("a", (1, 2, 3), DType.FP32), build.input("b", (1, 3, 4), DType.FP32)
    build.add("MATMUL", [a, b, *zeros])
    build.add("ABS", [build.input("other", (2,), DType.FP32)])
    assert wanted_channels(build.graph) == {"image": {(3,)}, "a": {(0, 2)}, "b": {(0, 1), (0, 2)}}


# --- factors of a product's channels


def channels(low: np.ndarray, high: np.ndarray) -> Channels:
    return Channels(low, high, low + high, low * low + high * high, 2)


def noise(a: Channels, b: Channels, spread: np.ndarray, levels: float) -> float:
    """What the rounding of each operand does to the products, as factors of its channels leave it."""
    step_a = (max(0.0, *(a.high / spread)) - min(0.0, *(a.low / spread))) / levels
    step_b = (max(0.0, *(b.high * spread)) - min(0.0, *(b.low * spread))) / levels
    return step_a**2 * sum(b.power * spread**2) + step_b**2 * sum(a.power / spread**2)


@pytest.mark.parametrize("kind", ["both signs", "positive", "negative"])
def test_factors_of_the_channels_of_a_product(kind: str) -> None:
    """The root of how their largest numbers differ, in quarters of octaves around the median; None where noise falls
    by less than 1.5 dB."""
    taken = 0
    for seed in range(40):
        dice = np.random.default_rng(seed)
        sides = []
        for _ in range(2):
            size = 2.0 ** dice.uniform(-2.5, 0, 5)
            low = size * dice.uniform(0, 1, 5)
            sides.append(
                channels(
                    *{"both signs": (-low, size), "positive": (low, size), "negative": (-size, -low)}[kind]
                )
            )
        a, b = sides
        classes = np.arange(5)
        octaves = np.log2(np.sqrt(a.largest / b.largest))
        factors = 2.0 ** (np.rint(4 * (octaves - np.median(octaves))) / 4)
        pays = noise(a, b, factors, 255.0) * 10**0.15 < noise(a, b, np.ones(5), 255.0)
        found = product_factors(a, b, classes, 255.0)
        assert (found is not None) == pays
        if found is not None:
            np.testing.assert_allclose(found, factors)
            taken += 1
    assert 0 < taken < 40


def test_channels_of_one_class_have_one_factor() -> None:
    a = channels(np.zeros(4), np.array([8.0, 1.0, 0.25, 4.0]))
    b = channels(np.zeros(4), np.array([0.5, 1.0, 4.0, 0.25]))
    found = product_factors(a, b, np.array([0, 1, 1, 0]), 255.0)
    # The largest are 8 and 0.5, and 1 and 4: roots 4 and 0.5, three octaves apart.
    assert found is not None and found.tolist() == pytest.approx([2**1.5, 2**-1.5])
