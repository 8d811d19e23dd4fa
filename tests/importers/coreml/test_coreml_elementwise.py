"""Elementwise layers against NumPy, by the formulas of Apple's schema."""

import math

import numpy as np
import pytest
from coreml_models import check, floats
from hypothesis import given, settings
from hypothesis import strategies as st

RANDOM = np.random.default_rng(11)
ERF = np.vectorize(math.erf)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


BINARY = {
    "addBroadcastable": np.add,
    "subtractBroadcastable": np.subtract,
    "multiplyBroadcastable": np.multiply,
    "divideBroadcastable": np.divide,
    "maxBroadcastable": np.maximum,
    "minBroadcastable": np.minimum,
    "max": np.maximum,
    "min": np.minimum,
    "equal": lambda a, b: (a == b).astype(float),
    "notEqual": lambda a, b: (a != b).astype(float),
    "greaterThan": lambda a, b: (a > b).astype(float),
    "greaterEqual": lambda a, b: (a >= b).astype(float),
    "lessThan": lambda a, b: (a < b).astype(float),
    "lessEqual": lambda a, b: (a <= b).astype(float),
    "logicalAnd": lambda a, b: ((a != 0) & (b != 0)).astype(float),
    "logicalOr": lambda a, b: ((a != 0) | (b != 0)).astype(float),
    "logicalXor": lambda a, b: ((a != 0) ^ (b != 0)).astype(float),
}


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((3, 1), (2, 1, 4)), ((5,), (1,))])
def test_two_inputs_that_broadcast(kind, shapes):
    a, b = (np.round(normal(*shape) * 2) + 0.0 for shape in shapes)
    b = np.where((b == 0) & (kind[:3] == "div"), 1, b)
    check(kind, [a, b], {}, BINARY[kind](a, b))


def test_floor_division_and_its_rest():
    a = RANDOM.integers(-40, 40, (6, 50)).astype(np.float32)
    b = RANDOM.choice([-7, -3, -1, 2, 3, 5, 11], (6, 50)).astype(np.float32)
    check("floorDivBroadcastable", [a, b], {}, a // b)
    check("modBroadcastable", [a, b], {}, np.mod(a, b))
    x = normal(4, 9) * 10
    check("modBroadcastable", [x, np.full((1, 9), 0.75, np.float32)], {}, np.mod(x, 0.75), atol=1e-4)


def test_powers():
    x, e = np.abs(normal(3, 4)) + 0.1, normal(1, 4)
    check("powBroadcastable", [x, e], {}, x**e, rtol=1e-4)


@pytest.mark.parametrize(
    "kind", ["equal", "notEqual", "greaterThan", "greaterEqual", "lessThan", "lessEqual"]
)
def test_comparison_with_alpha(kind):
    x = np.array([[-1.0, 2.0, 2.5, 7.0]], np.float32)
    check(kind, [x], {"alpha": 2.5}, BINARY[kind](x, 2.5))


def test_logical_not_and_where():
    c, a, b = np.array([[0.0], [3.0]], np.float32), normal(2, 3), normal(3)
    check("logicalNot", [c], {}, (c == 0).astype(float))
    check("whereBroadcastable", [c, a, b], {}, np.where(c != 0, a, b))


def test_add_and_multiply_by_alpha_or_inputs():
    x, y, z = normal(1, 3, 2, 2), normal(1, 3, 1, 1), normal(1, 1, 2, 2)
    check("add", [x], {"alpha": 0.5}, x + 0.5)
    check("multiply", [x], {"alpha": -2.0}, x * -2)
    check("add", [x, y, z], {}, x + y + z)
    check("multiply", [x, y, z], {}, x * y * z)
    check("average", [x, x * 3, z], {}, (x + x * 3 + z) / 3)


UNARY = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "sign": np.sign,
    "exp2": np.exp2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "erf": ERF,
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind):
    x = np.concatenate([normal(40), [-2.5, -0.5, 0.0, 0.5, 1.5]]).astype(np.float32).reshape(5, 9)
    check(kind, [x], {}, UNARY[kind](x), atol=2e-6)


@pytest.mark.parametrize(
    ("kind", "function", "low", "high"),
    [
        ("asin", np.arcsin, -1, 1),
        ("acos", np.arccos, -1, 1),
        ("atanh", np.arctanh, -0.95, 0.95),
        ("acosh", np.arccosh, 1.01, 9),
    ],
)
def test_unary_on_its_domain(kind, function, low, high):
    x = np.linspace(low, high, 60).astype(np.float32).reshape(3, 20)
    check(kind, [x], {}, function(x.astype(np.float64)))


@settings(max_examples=30, deadline=None)
@given(st.floats(-1e4, 1e4, width=32), st.sampled_from(["round", "floor", "ceil", "sign", "atan", "clip"]))
def test_unary_of_any_number(value, kind):
    x = np.array([value], np.float32)
    if kind == "clip":
        check(kind, [x], {"minVal": -3.5, "maxVal": 12.25}, np.clip(x, -3.5, 12.25))
    else:
        check(kind, [x], {}, UNARY[kind](x))


@pytest.mark.parametrize(
    ("operation", "function"),
    [
        (0, np.sqrt),
        (1, lambda x: 1 / np.sqrt(x + 0.25)),
        (2, lambda x: 1 / (x + 0.25)),
        (3, lambda x: x**1.5),
        (4, np.exp),
        (5, np.log),
        (6, np.abs),
        (7, lambda x: np.maximum(x, 1.5)),
    ],
)
def test_unary_function_layer(operation, function):
    x = np.abs(normal(3, 4)) + 0.5
    params = {"type": operation, "alpha": 1.5, "epsilon": 0.25, "shift": 0.5, "scale": 2.0}
    check("unary", [x], params, function(2 * x.astype(np.float64) + 0.5))
    # A scale of 0 is a scale of 1.
    check("unary", [x], {**params, "scale": 0.0, "shift": 0.0}, function(x.astype(np.float64)))


def softplus(x):
    return np.log1p(np.exp(x))


X = normal(2, 3, 4, 5)
SLOPES = np.array([0.5, -0.25, 2.0], np.float32)
PER_CHANNEL = SLOPES[:, None, None]
ACTIVATIONS = {
    "linear": ({"alpha": 2.0, "beta": -1.0}, 2 * X - 1),
    "ReLU": ({}, np.maximum(X, 0)),
    "leakyReLU": ({"alpha": 0.25}, np.where(X >= 0, X, 0.25 * X)),
    "thresholdedReLU": ({"alpha": 0.75}, np.where(X >= 0.75, X, 0)),
    "PReLU": ({"alpha": floats(SLOPES)}, np.where(X >= 0, X, PER_CHANNEL * X)),
    "tanh": ({}, np.tanh(X)),
    "scaledTanh": ({"alpha": 1.5, "beta": 0.5}, 1.5 * np.tanh(0.5 * X)),
    "sigmoid": ({}, 1 / (1 + np.exp(-X))),
    "sigmoidHard": ({"alpha": 0.3, "beta": 0.4}, np.clip(0.3 * X + 0.4, 0, 1)),
    "ELU": ({"alpha": 1.5}, np.where(X >= 0, X, 1.5 * (np.exp(X) - 1))),
    "softsign": ({}, X / (1 + np.abs(X))),
    "softplus": ({}, softplus(X)),
    "parametricSoftplus": (
        {"alpha": floats(SLOPES), "beta": floats([0.5, 1.0, 2.0])},
        PER_CHANNEL * softplus(np.array([0.5, 1, 2])[:, None, None] * X),
    ),
}


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activation(function):
    params, expected = ACTIVATIONS[function]
    check("activation", [X], {function: params}, expected)


def test_activation_with_one_parameter_for_all_channels():
    check("activation", [X], {"PReLU": {"alpha": floats([0.1])}}, np.where(X >= 0, X, np.float32(0.1) * X))


def test_clamped_relu_and_gelu():
    check("clampedReLU", [X], {"alpha": 0.5, "beta": 1.0}, np.minimum(1.0, np.where(X >= 0, X, 0.5 * X)))
    check("gelu", [X], {"mode": 0}, X * 0.5 * (1 + ERF(X / np.sqrt(2))))
    inner = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    check("gelu", [X], {"mode": 1}, X * 0.5 * (1 + np.tanh(inner)))
    check("gelu", [X], {"mode": 2}, X / (1 + np.exp(-1.702 * X)))
