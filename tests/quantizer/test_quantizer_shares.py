"""Attention whose heads differ, in every form: the division of a softmax follows the product with the values.

Shares of a flat row are small beside those of a peaky one; powers go up to 1 in both.
"""

from collections.abc import Callable

import numpy as np
import pytest
from float_networks import Floats, quantize_graph, run_everywhere, samples, statistics, worst_db

from tosaic.compiler.importers.lowering import attention
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.quantizer import canonical
from tosaic.driver.quantize.quantization import evaluate_constant
from tosaic.sim.golden import evaluate

HEADS, TOKENS, SIZE = 4, 96, 8
WIDTH = HEADS * SIZE
GAINS = np.repeat([30.0, 0.01, 0.01, 0.01], SIZE)
"""Gains of the queries: one head attends a few tokens, the others attend all alike."""
LOUDNESS = np.repeat([1.0, 12.0, 12.0, 12.0], SIZE)
"""Gains of the results: means of all tokens are small, and count as much."""
Form = Callable[[Floats, str, str, str], str]
FORMS: dict[str, Form] = {}
"""Builders of an attention by name. Each takes queries, keys and values [1, heads, tokens, size] and gives the values
attended, in the same shape."""


def form(function: Form) -> Form:
    FORMS[function.__name__] = function
    return function


def network(attended: Form) -> Graph:
    low = Floats()
    x = low.input("x", (1, TOKENS, WIDTH))
    parts = []
    for gain in (GAINS, np.ones(WIDTH), np.ones(WIDTH)):
        weight = low.constant(low.random.standard_normal((WIDTH, WIDTH)) * gain / WIDTH**0.5, DType.FP32)
        parts.append(attention.by_heads(low, matmul(low, x, weight), HEADS))
    y = attention.joined_heads(low, attended(low, *parts))
    return low.finish(low.mul(y, low.constant(LOUDNESS.reshape(1, 1, -1), DType.FP32)))


def scores(low: Floats, q: str, k: str) -> str:
    return matmul(low, q, low.transpose(k, (0, 1, 3, 2)))


def causal(low: Floats) -> str:
    return low.constant(np.tril(np.ones((1, 1, TOKENS, TOKENS), bool)), DType.BOOL)


@form
def plain(low, q, k, v):
    return matmul(low, statistics.softmax(low, scores(low, q, k), (3,)), v)


@form
def without_batch(low, q, k, v):
    q, k, v = (low.reshape(each, (HEADS, TOKENS, SIZE)) for each in (q, k, v))
    shares = statistics.softmax(low, matmul(low, q, low.transpose(k, (0, 2, 1))), (2,))
    return low.reshape(matmul(low, shares, v), (1, HEADS, TOKENS, SIZE))


@form
def values_on_the_left(low, q, k, v):
    shares = statistics.softmax(low, scores(low, k, q), (2,))
    return low.transpose(matmul(low, low.transpose(v, (0, 1, 3, 2)), shares), (0, 1, 3, 2))


@form
def keys_before_queries(low, q, k, v):
    shares = statistics.softmax(low, low.transpose(scores(low, q, k), (0, 3, 1, 2)), (1,))
    return matmul(low, low.transpose(shares, (0, 2, 3, 1)), v)


@form
def in_windows(low, q, k, v):
    wide = low.reshape(scores(low, q, k), (1, 2, 2, TOKENS, TOKENS))
    shares = low.reshape(statistics.softmax(low, wide, (4,)), (HEADS, TOKENS, TOKENS))
    return low.reshape(matmul(low, shares, low.reshape(v, (HEADS, TOKENS, SIZE))), (1, HEADS, TOKENS, SIZE))


@form
def a_product_for_each_head(low, q, k, v):
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    parts = [[low.slice_axis(each, 1, head, 1) for each in (shares, v)] for head in range(HEADS)]
    return low.concat([matmul(low, *part) for part in parts], 1)


@form
def two_products(low, q, k, v):
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    return low.add(matmul(low, shares, v), matmul(low, shares, low.times(k, 0.5)))


@form
def causal_bias(low, q, k, v):
    return attention.attend(
        low, q, k, v, attention.Scores(1.0, bias=attention.infinite(low, causal(low), DType.FP32))
    ).y


@form
def rows_that_may_be_empty(low, q, k, v):
    bias = attention.infinite(low, causal(low), DType.FP32)
    return attention.attend(low, q, k, v, attention.Scores(1.0, bias=bias, empty_rows=True)).y


@form
def with_a_sink(low, q, k, v):
    sink = low.constant(np.zeros((1, HEADS, 1, 1)), DType.FP32)
    return attention.attend(low, q, k, v, attention.Scores(1.0, sink=sink)).y


@form
def with_a_temperature(low, q, k, v):
    wide = scores(low, q, k)
    powers = low.op("EXP", low.times(low.sub(wide, low.reduce("MAX", wide, (3,))), 0.5))
    return matmul(low, low.div(powers, low.reduce("SUM", powers, (3,))), v)


@form
def masked_afterwards(low, q, k, v):
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    return matmul(low, low.select(causal(low), shares, low.scalar(0, shares)), v)


@form
def multiplied_afterwards(low, q, k, v):
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    kept = low.constant(np.tile([1.0, 0.5, 0.0], (1, 1, 1, TOKENS // 3)), DType.FP32)
    return matmul(low, low.mul(shares, kept), v)


@form
def nan_becomes_zero(low, q, k, v):
    """Computes scaled_dot_product_attention with a mask as PyTorch writes it."""
    hidden = attention.infinite(low, causal(low), DType.FP32)
    shares = statistics.softmax(low, low.add(scores(low, q, k), hidden), (3,))
    nan = low.op("LOGICAL_NOT", low.equal(shares, shares))
    return matmul(low, low.select(nan, low.scalar(0, shares), shares), v)


SHORT_ROWS = ("causal_bias", "rows_that_may_be_empty", "nan_becomes_zero")


@pytest.mark.parametrize("name", FORMS)
def test_heads_that_differ(name: str) -> None:
    """With shares in 8 bits it is 15.7 to 18.1 dB, and 25.2 where the first rows are short."""
    graph = network(FORMS[name])
    found = quantize_graph(graph, samples(graph, 4))
    assert worst_db(found) >= (27 if name in SHORT_ROWS else 21)
    run_everywhere(found)


@pytest.mark.parametrize(("name", "least"), [("plain", 32.5), ("with_a_sink", 32.5), ("causal_bias", 39.4)])
def test_16_bits_are_no_worse(name: str, least: float) -> None:
    """They have been as good with shares."""
    graph = network(FORMS[name])
    assert worst_db(quantize_graph(graph, samples(graph, 4), activations="int16")) >= least


@pytest.mark.parametrize("name", FORMS)
def test_floats_mean_the_same(name: str) -> None:
    graph = network(FORMS[name])
    sample = {"x": samples(graph, 1)["x"][0]}
    wanted, got = (evaluate(each, sample) for each in (graph, canonical(graph, evaluate_constant)))
    for output in graph.outputs:
        assert np.allclose(got[output], wanted[output], rtol=1e-4, atol=1e-5)


def test_rows_that_are_hidden_give_zeros() -> None:
    """Where a test for NaN says so: powers and sums of a row of minus infinity are both NaN."""
    low = Floats()
    q, v, bias = (low.input(name, (1, 4, 4)) for name in ("q", "v", "bias"))
    shares = statistics.softmax(low, low.add(q, bias), (2,))
    nan = low.op("LOGICAL_NOT", low.equal(shares, shares))
    graph = low.finish(matmul(low, low.select(nan, low.scalar(0, shares), shares), v))
    sample = {name: values[0] for name, values in samples(graph, 1).items()}
    sample["bias"] = np.zeros((1, 4, 4), np.float32)
    sample["bias"][0, 2] = -np.inf
    (wanted,), (got,) = (
        evaluate(each, sample).values() for each in (graph, canonical(graph, evaluate_constant))
    )
    assert not wanted[0, 2].any() and np.allclose(got, wanted, atol=1e-6)


def test_a_product_is_kept_in_16_bits_by_its_tensor() -> None:
    """The tensor has the name of the network, whatever is computed after the product."""
    low = Floats()
    q, k, v = (low.input(name, (1, 4, 8)) for name in "qkv")
    shares = statistics.softmax(low, matmul(low, q, low.transpose(k, (0, 2, 1))), (2,))
    graph = low.finish(matmul(low, shares, v))
    arrays = samples(graph)
    plain = quantize_graph(graph, arrays)
    kept = quantize_graph(graph, arrays, keep_int16=graph.outputs)
    dtypes = [
        [each.graph.tensors[op.inputs[0]].dtype for op in each.graph.operators if op.op == "MATMUL"]
        for each in (plain, kept)
    ]
    assert dtypes == [[DType.INT8, DType.INT8], [DType.INT8, DType.INT16]]


def test_values_whose_channels_differ() -> None:
    """Equalization through the product counts what rounding the values costs: they are evened out, the results not."""
    found = []
    for spread in (0.0, 3.0):
        low = Floats()
        x = low.input("x", (1, 32, WIDTH))
        stretch = 2.0 ** low.random.uniform(-spread, spread, WIDTH)
        weights = [low.random.standard_normal((WIDTH, WIDTH)) / WIDTH**0.5 for _ in range(4)]
        weights[0] *= GAINS
        weights[2], weights[3] = weights[2] * stretch, weights[3] * (LOUDNESS / stretch)[:, None]
        q, k, v, out = (low.constant(weight, DType.FP32) for weight in weights)
        parts = [attention.by_heads(low, matmul(low, x, each), HEADS) for each in (q, k, v)]
        y = attention.joined_heads(low, attention.attend(low, *parts, attention.Scores(SIZE**-0.5)).y)
        graph = low.finish(matmul(low, y, out))
        found.append(worst_db(quantize_graph(graph, samples(graph))))
    assert found[0] >= 27.5 and found[1] >= found[0] - 1


# --- what stays as it is


def _shares_leave(low: Floats, q: str, k: str, v: str) -> list[str]:
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    return [matmul(low, shares, v), shares]


def _shares_are_added(low: Floats, q: str, k: str, v: str) -> list[str]:
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    return [matmul(low, shares, v), low.reduce("MAX", shares, (2,))]


def _shares_of_queries(low: Floats, q: str, k: str, v: str) -> list[str]:
    return [matmul(low, statistics.softmax(low, scores(low, q, k), (2,)), v)]


def _powers_of_any_size(low: Floats, q: str, k: str, v: str) -> list[str]:
    powers = low.op("EXP", scores(low, q, k))
    return [matmul(low, low.div(powers, low.reduce("SUM", powers, (3,))), v)]


def _joined_with_queries(low: Floats, q: str, k: str, v: str) -> list[str]:
    shares = low.reshape(statistics.softmax(low, scores(low, q, k), (3,)), (1, 1, 2, 16))
    return [matmul(low, shares, low.reshape(v, (1, 1, 16, 2)))]


def _times_themselves(low: Floats, q: str, k: str, v: str) -> list[str]:
    shares = statistics.softmax(low, scores(low, q, k), (3,))
    return [matmul(low, matmul(low, shares, low.transpose(shares, (0, 1, 3, 2))), v)]


def _above_one(low: Floats, q: str, k: str, v: str) -> list[str]:
    wide = scores(low, q, k)
    powers = low.op("EXP", low.times(low.sub(wide, low.reduce("MAX", wide, (3,))), -0.5))
    return [matmul(low, low.div(powers, low.reduce("SUM", powers, (3,))), v)]


STAYS = [
    _times_themselves,
    _above_one,
    _shares_leave,
    _shares_are_added,
    _shares_of_queries,
    _powers_of_any_size,
    _joined_with_queries,
]


@pytest.mark.parametrize("attended", STAYS)
def test_what_is_no_such_product_stays(attended: Callable) -> None:
    low = Floats()
    graph = low.finish(
        *attended(low, *(low.input(name, (1, 2, 4, 8 if name != "v" else 4)) for name in "qkv"))
    )
    assert [op.op for op in canonical(graph, evaluate_constant).operators] == [
        op.op for op in graph.operators
    ]
