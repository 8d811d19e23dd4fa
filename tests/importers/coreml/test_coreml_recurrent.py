"""Recurrent layers against a NumPy loop of the text's equations."""

import numpy as np
import pytest
from coreml_models import array, floats, layer, model, run, run_single

from tosaic.errors import ModelError

RANDOM = np.random.default_rng(14)
STEPS, BATCH, INNER, SIZE = 4, 2, 3, 5
X = RANDOM.standard_normal((STEPS, BATCH, INNER, 1, 1)).astype(np.float32)


def normal(*shape):
    return (RANDOM.standard_normal(shape) * 0.7).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def clip(x):
    return np.clip(x, -50, 50)


def blob(states):
    """[Seq, Batch, size] as Core ML's rank 5."""
    return np.asarray(states)[..., None, None]


def order(backwards):
    return range(STEPS)[::-1] if backwards else range(STEPS)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("sequence", [False, True])
def test_simple_recurrent(backwards, sequence):
    w, r, b, y = normal(SIZE, INNER), normal(SIZE, SIZE), normal(SIZE), normal(BATCH, SIZE)
    params = {
        "inputVectorSize": INNER, "outputVectorSize": SIZE, "activation": {"ReLU": {}}, "sequenceOutput": sequence,
        "hasBiasVector": True, "weightMatrix": floats(w), "recursionMatrix": floats(r), "biasVector": floats(b),
        "reverseInput": backwards,
    }  # fmt: skip
    got = run_single("simpleRecurrent", [X, blob(y[None])], params, 2)
    states = {}
    for t in order(backwards):
        y = np.maximum(clip(X[t, :, :, 0, 0] @ w.T + y @ r.T + b), 0)
        states[t] = y
    wanted = blob([states[t] for t in range(STEPS)]) if sequence else blob(y[None])
    np.testing.assert_allclose(got[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], blob(y[None]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_gru(bias):
    w, r, b = normal(3, SIZE, INNER), normal(3, SIZE, SIZE), normal(3, SIZE) * bias
    params = {
        "inputVectorSize": INNER, "outputVectorSize": SIZE, "sequenceOutput": True, "hasBiasVectors": bias,
        "activations": [{"sigmoidHard": {"alpha": 0.2, "beta": 0.5}}, {"tanh": {}}],
    }  # fmt: skip
    for i, name in enumerate(("update", "reset", "output")):
        params[f"{name}GateWeightMatrix"] = floats(w[i])
        params[f"{name}GateRecursionMatrix"] = floats(r[i])
        if bias:
            params[f"{name}GateBiasVector"] = floats(b[i])
    states, y = [], np.zeros((BATCH, SIZE))

    def hard(x):
        return np.clip(0.2 * x + 0.5, 0, 1)

    for t in range(STEPS):
        x = X[t, :, :, 0, 0]
        z = hard(x @ w[0].T + y @ r[0].T + b[0])
        reset = hard(x @ w[1].T + y @ r[1].T + b[1])
        o = np.tanh(x @ w[2].T + (y * reset) @ r[2].T + b[2])
        y = (1 - z) * o + z * y
        states.append(y)
    np.testing.assert_allclose(run_single("gru", [X], params)[0], blob(states), rtol=1e-4, atol=1e-5)


GATES = ("inputGate", "forgetGate", "blockInput", "outputGate")


class Lstm:
    """Random weights and the text's equations."""

    def __init__(self, peepholes):
        self.w, self.r, self.b = normal(4, SIZE, INNER), normal(4, SIZE, SIZE), normal(4, SIZE)
        self.p = normal(3, SIZE) * peepholes

    def weights(self):
        params = {}
        for i, gate in enumerate(GATES):
            params[f"{gate}WeightMatrix"] = floats(self.w[i])
            params[f"{gate}RecursionMatrix"] = floats(self.r[i])
            params[f"{gate}BiasVector"] = floats(self.b[i])
        for i, gate in enumerate(("inputGate", "forgetGate", "outputGate")):
            params[f"{gate}PeepholeVector"] = floats(self.p[i])
        return params

    def __call__(self, y, c, backwards, forget_bias=0.0, coupled=False, limit=50.0):
        states = {}
        for t in order(backwards):
            x = X[t, :, :, 0, 0]
            i, f, z, o = (x @ w.T + y @ r.T + b for w, r, b in zip(self.w, self.r, self.b, strict=True))
            i = sigmoid(clip(i + self.p[0] * c))
            f = 1 - i if coupled else sigmoid(clip(f + self.p[1] * c + forget_bias))
            c = np.clip(c * f + i * np.tanh(clip(z)), -limit, limit)
            o = sigmoid(clip(o + self.p[2] * c))
            y = np.tanh(c) * o
            states[t] = y
        return np.array([states[t] for t in range(STEPS)]), y, c


ACTIVATIONS = [{"sigmoid": {}}, {"tanh": {}}, {"tanh": {}}]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"hasPeepholeVectors": True, "forgetBias": True},
        {"coupledInputAndForgetGate": True, "cellClipThreshold": 0.25},
    ],
)
def test_lstm(backwards, more):
    lstm = Lstm(more.get("hasPeepholeVectors", False))
    y, c = normal(BATCH, SIZE), normal(BATCH, SIZE)
    params = {
        "inputVectorSize": INNER, "outputVectorSize": SIZE, "activations": ACTIVATIONS, "reverseInput": backwards,
        "params": {"sequenceOutput": True, "hasBiasVectors": True, **more}, "weightParams": lstm.weights(),
    }  # fmt: skip
    wanted = lstm(
        y,
        c,
        backwards,
        float(more.get("forgetBias", 0)),
        "coupledInputAndForgetGate" in more,
        more.get("cellClipThreshold", 50.0),
    )
    got = run_single("uniDirectionalLSTM", [X, blob(y[None]), blob(c[None])], params, 3)
    for value, reference in zip(got, (wanted[0], wanted[1][None], wanted[2][None]), strict=True):
        np.testing.assert_allclose(value, blob(reference), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sequence", [False, True])
def test_bidirectional_lstm(sequence):
    forward, backward, zero = Lstm(False), Lstm(False), np.zeros((BATCH, SIZE))
    params = {
        "inputVectorSize": INNER, "outputVectorSize": SIZE, "activationsForwardLSTM": ACTIVATIONS,
        "activationsBackwardLSTM": ACTIVATIONS, "params": {"sequenceOutput": sequence, "hasBiasVectors": True},
        "weightParams": [forward.weights(), backward.weights()],
    }  # fmt: skip
    one, two = forward(zero, zero, False), backward(zero, zero, True)
    both = np.concatenate([one[0], two[0]], 2) if sequence else np.concatenate([one[1], two[1]], 1)[None]
    got = run_single("biDirectionalLSTM", [X], params, 5)
    ends = [one[1], one[2], two[1], two[2]]
    np.testing.assert_allclose(got[0], blob(both), rtol=1e-4, atol=1e-5)
    for value, reference in zip(got[1:], ends, strict=True):
        np.testing.assert_allclose(value, blob(reference[None]), rtol=1e-4, atol=1e-5)


def test_a_sequence_is_bound_by_shape():
    """With the mapping to rank 5, [C] becomes [Seq, Batch, C, 1, 1] by a binding."""
    w, r = normal(SIZE, INNER), normal(SIZE, SIZE)
    recurrent = layer(
        "simpleRecurrent", ["x"], ["y"], inputVectorSize=INNER, outputVectorSize=SIZE, activation={"tanh": {}},
        weightMatrix=floats(w), recursionMatrix=floats(r),
    )  # fmt: skip
    message = model([recurrent], [array("x", [INNER])], [array("y", [SIZE])], exact=False, version=1)
    got = run(message, {"x": X[:, :1]}, {"x": (STEPS, 1, INNER, 1, 1)})["y"]
    y = np.zeros((1, SIZE))
    for t in range(STEPS):
        y = np.tanh(X[t, :1, :, 0, 0] @ w.T + y @ r.T)
    np.testing.assert_allclose(got, y[0], rtol=1e-4, atol=1e-5)


def test_wrong_sizes_are_told():
    params = {"inputVectorSize": 2, "outputVectorSize": SIZE}
    with pytest.raises(ModelError, match=r"its input must have shape \[Seq, Batch, 2, 1, 1\]"):
        run_single("gru", [X], params)
