"""Functions of one variable: one table each, near the function, and exact where 8 bits go in and out."""

import math
import warnings

import numpy as np
import pytest
from float_networks import Floats, activations, quantize_graph, run_everywhere, samples, worst_db

from tosaic.compiler.ir import DType
from tosaic.compiler.quantizer.encoding import Encoding, asymmetric
from tosaic.compiler.quantizer.tables import INTERPOLATION, int8_table, pieces
from tosaic.sim.golden import evaluate

CURVES = {
    "gelu": lambda low, x: activations.gelu(low, x),
    "gelu by tanh": lambda low, x: activations.gelu(low, x, tanh=True),
    "silu": lambda low, x: low.mul(x, low.op("SIGMOID", x)),
    "hard swish": lambda low, x: low.mul(x, activations.hard_sigmoid(low, x, 1 / 6, 0.5)),
    "mish": lambda low, x: activations.mish(low, x),
    "elu": lambda low, x: activations.elu(low, x, 1.0),
    "leaky relu": lambda low, x: activations.leaky_relu(low, x, low.scalar(0.1, x)),
    "softplus": lambda low, x: activations.softplus(low, x),
    "softsign": lambda low, x: activations.softsign(low, x),
    "sigmoid": lambda low, x: low.op("SIGMOID", x),
    "tanh": lambda low, x: low.op("TANH", x),
    "sine": lambda low, x: low.op("SIN", low.times(x, 2.0)),
    "gelu of sums": lambda low, x: activations.gelu(low, low.times(low.plus(x, 0.3), 1.7)),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_chain_is_one_table(name):
    low = Floats()
    x = low.times(low.input("x", (8, 16)), 2.0)
    graph = low.finish(CURVES[name](low, x))
    quantization = quantize_graph(graph, samples(graph))
    # The input is int8 anyway: 256 entries, no more operators.
    assert [op.op for op in quantization.graph.operators] == ["TABLE"]
    assert worst_db(quantization) >= 30
    run_everywhere(quantization)


@pytest.mark.parametrize("name", CURVES)
def test_behind_a_product_the_table_has_16_bits(name):
    low = Floats()
    product = low.op(
        "MATMUL",
        low.input("x", (1, 8, 16)),
        low.normal(1, 16, 9, scale=0.4),
        *[low.constant([0], DType.FP32)] * 2,
        dtype=DType.FP32,
    )
    graph = low.finish(CURVES[name](low, product))
    quantization = quantize_graph(graph, samples(graph))
    tables = [op for op in quantization.graph.operators if op.op == "TABLE"]
    assert len(tables) == 1
    assert quantization.graph.tensors[tables[0].inputs[0]].dtype is DType.INT16
    assert worst_db(quantization) >= 32
    run_everywhere(quantization)


def test_int8_table_is_exact():
    source, target = asymmetric(DType.INT8, -4, 4), Encoding(DType.INT8, 1 / 256, -128)
    table = int8_table(lambda x: 1 / (1 + np.exp(-x)), source, target)
    for q in range(-128, 128):
        real = 1 / (1 + math.exp(-source.scale * (q - source.zero_point)))
        assert table[q + 128] == max(-128, min(127, round(real * 256) - 128))


@pytest.mark.parametrize(("low", "high"), [(1.0, 64.0), (1e-3, 1e3), (0.5, 0.5), (2.0, 2.1)])
@pytest.mark.parametrize("power", [-1.0, -0.5, 0.5])
def test_pieces_are_precise_over_wide_ranges(low, high, power):
    found = pieces(lambda x: np.maximum(x, 1e-30) ** power, low, high)
    assert found[0].low <= low and found[-1].high >= high
    for first, second in zip(found, found[1:], strict=False):
        assert first.high == second.low
    for x in np.geomspace(low, high, 301):
        piece = next(p for p in found if x <= p.high or p is found[-1])
        index = int(np.clip(round((x - piece.centre) / piece.step), -32768, 32767)) + 32768
        entry, part = index // INTERPOLATION, index % INTERPOLATION
        base, following = int(piece.entries[entry]), int(piece.entries[entry + 1])
        value = (base * INTERPOLATION + (following - base) * part) * piece.scale / INTERPOLATION
        assert value == pytest.approx(x**power, rel=0.02 if high / low > 1e5 else 0.002)


def test_a_bend_within_a_few_steps_of_a_wide_range():
    """x / (1 + |x|) over -300..300 bends around 0: one table of equal steps has its corner wrong by a fifth."""
    low = Floats()
    product = low.op(
        "MATMUL",
        low.input("x", (1, 16, 16)),
        low.constant(30 * np.eye(16)[None], DType.FP32),
        *[low.constant([0], DType.FP32)] * 2,
        dtype=DType.FP32,
    )
    graph = low.finish(activations.softsign(low, product))
    random = np.random.default_rng(1)
    values = random.standard_normal((16, 1, 16, 16)) * 10.0 ** random.uniform(-3, 0.5, (16, 1, 16, 16))
    quantization = quantize_graph(graph, {"x": values.astype(np.float32)}, activations="int16")
    assert worst_db(quantization) > 50
    run_everywhere(quantization)


def test_a_step_at_a_point_ends():
    """The part where it happens gets smaller and smaller, down to what floats hold."""
    (found,) = pieces(lambda x: (x > 1e-300).astype(float), -1.0, 1.0)
    assert found.high - found.low < 2.0**-20 and found.entries[0] == 0 and found.entries[-1] == 32767


def test_sign_of_an_input_that_nothing_else_reads():
    """A jump: exact for every integer of the input, above, at and below 0."""
    low = Floats()
    x = low.input("x", (1, 256))
    zero = low.scalar(0, x)
    below = low.select(low.greater(zero, x), low.scalar(-1, x), zero)
    quantization = quantize_graph(
        low.finish(low.select(low.greater(x, zero), low.scalar(1, x), below)), samples(low.graph)
    )
    source, result = quantization.result.inputs["x"], next(iter(quantization.result.outputs.values()))
    integers = np.arange(-128, 128).reshape(1, 256).astype(np.int8)
    (made,) = evaluate(quantization.graph, {"x": integers}).values()
    wanted = np.sign(integers.astype(int) - source.zero_point)
    np.testing.assert_array_equal(np.rint(result.dequantize(made)), wanted)
    run_everywhere(quantization)


def test_a_pole_saturates_without_a_word_of_numpy():
    """One over 0, which the integers of a range from 0 on have beside those that were seen."""
    low = Floats()
    graph = low.finish(low.op("RECIPROCAL", low.input("x", (1, 64))))
    x = np.random.default_rng(5).uniform(1, 100, (16, 1, 64)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        quantization = quantize_graph(graph, {"x": x})
    zero = quantization.result.inputs["x"].quantize(np.zeros((1, 64)))
    (made,) = evaluate(quantization.graph, {"x": zero}).values()
    assert np.all(made == 127)
    run_everywhere(quantization)
