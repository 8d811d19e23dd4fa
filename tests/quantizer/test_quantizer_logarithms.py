"""Logarithms of powers over many decades, as spectra have them, and probabilities of what never happens."""

import math

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, worst_db

from tosaic.compiler.importers.lowering import convolution
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.ir import DType
from tosaic.compiler.quantizer.tables import INTERPOLATION, is_log_like, pieces

POINT = [AxisWindow(1)] * 2


def looked_up(found, x: float) -> float:
    """The value that the piece of an input gives."""
    piece = next(p for p in found if x <= p.high or p is found[-1])
    index = int(np.clip(round((x - piece.centre) / piece.step), -32768, 32767)) + 32768
    entry, part = index // INTERPOLATION, index % INTERPOLATION
    base, following = int(piece.entries[entry]), int(piece.entries[entry + 1])
    return (base * INTERPOLATION + (following - base) * part) * piece.scale / INTERPOLATION


def test_a_logarithm_is_split_by_ratios():
    def decibels(x):
        return 10 * np.log10(np.maximum(x, 1e-10))

    found = pieces(decibels, 1e-9, 200.0)
    assert found[0].low <= 200 / 2**24 and found[-1].high >= 200
    for x in np.geomspace(200 / 2**24, 200.0, 301):
        assert looked_up(found, x) == pytest.approx(float(decibels(x)), abs=0.05)


def test_what_is_no_logarithm_of_a_wide_range():
    assert is_log_like(np.log, 1e-3, 1e3)
    assert not is_log_like(np.log, 1.0, 1.5)
    assert not is_log_like(np.tanh, 1e-3, 1e3)
    assert not is_log_like(np.sqrt, 1e-3, 1e3)


def test_a_sigmoid_of_what_never_happens_keeps_its_bits():
    found = pieces(lambda x: 1 / (1 + np.exp(-x)), -13.0, -6.0)
    for x in np.linspace(-13.0, -6.0, 50):
        assert looked_up(found, x) == pytest.approx(1 / (1 + math.exp(-x)), abs=1e-6)


def spectrum(low: Floats, filters: bool) -> str:
    """Decibels of the power of four complex bins, or of what two filters of them let through."""
    x = low.input("x", (1, 8, 1, 16))
    real, imaginary = (
        convolution.convolve(low, x, low.normal(4, 1, 1, 16, scale=0.3), None, POINT) for _ in range(2)
    )
    power = low.add(low.mul(real, real), low.mul(imaginary, imaginary))
    if filters:
        weight = low.constant(np.abs(low.random.standard_normal((2, 1, 1, 4))), DType.FP32)
        power = convolution.convolve(low, power, weight, None, POINT)
    floored = low.op("MAXIMUM", power, low.scalar(1e-10, power))
    return low.times(low.op("LOG", floored), 10 / math.log(10))


def loud_and_quiet(count: int = 16) -> dict[str, np.ndarray]:
    """Sounds of which the loudest are fifty decibels above the quietest."""
    random = np.random.default_rng(4)
    levels = 10.0 ** random.uniform(-1.0, 1.5, (count, 1, 8, 1, 1))
    return {"x": (levels * random.standard_normal((count, 1, 8, 1, 16))).astype(np.float32)}


@pytest.mark.parametrize("filters", [False, True])
def test_decibels_of_quiet_and_loud(filters):
    low = Floats()
    graph = low.finish(spectrum(low, filters))
    found = quantize_graph(graph, loud_and_quiet(), activations="int16")
    assert worst_db(found) > 20
    run_everywhere(found)


def test_small_powers_are_computed_in_finer_steps():
    """The finer steps are those of numbers that saturate, whose squares are chosen where the power is small. Filters
    between them hide the squares."""
    for filters, finer in ((False, True), (True, False)):
        low = Floats()
        graph = quantize_graph(
            low.finish(spectrum(low, filters)), loud_and_quiet(), activations="int16"
        ).graph
        cut = [
            op for op in graph.operators if op.op == "CLAMP" and op.attributes["min_val"] == -DType.INT16.max
        ]
        assert [op.op for name in cut for op in graph.consumers(name.outputs[0])] == ["MUL"] * (2 * finer)
        assert any(op.op == "SELECT" for op in graph.operators)
