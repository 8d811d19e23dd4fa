"""RNN, GRU and LSTM, unrolled in time; the input's part of all times is one matrix product."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tosaic.compiler.importers.lowering import Lowering, activations
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.recurrent import (
    GRU_HALVES,
    LSTM_HALVES,
    Step,
    gated,
    gru_output,
    halved_gates,
    lstm_cell,
    split,
    stacked,
    unroll,
    zeros,
)
from tosaic.compiler.importers.onnx_models.node import OnnxNode
from tosaic.compiler.importers.onnx_models.registry import handles
from tosaic.compiler.importers.onnx_models.values import OnnxValue
from tosaic.compiler.ir import DType
from tosaic.compiler.ir.encoding import evenly_scaled

Activation = Callable[[str], str]

_DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_ALPHA = {
    "LeakyRelu": 0.01,
    "ThresholdedRelu": 1.0,
    "Elu": 1.0,
    "HardSigmoid": 0.2,
    "Affine": 1.0,
    "ScaledTanh": 1.0,
}
_BETA = {"HardSigmoid": 0.5, "Affine": 0.0, "ScaledTanh": 1.0}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


class _Direction:
    """Weights and functions of one direction, as tensors: w [I, gates * H], r [H, gates * H]."""

    def __init__(self, node: OnnxNode, number: int, functions: list[Activation]) -> None:
        low, gates = node.low, _GATES[node.op]
        self.low, self.node, self.number, self.functions = low, node, number, functions
        self.clip = node.attr("clip")
        usual = _DEFAULTS[node.op] * node.shape(2)[0]
        self.plain = (
            _names(node, usual) == usual
            and self.clip is None
            and not node.attr("input_forget", 0)
            and not (node.op == "LSTM" and node.has(7))
        )
        """The cell that most networks have: sigmoids for gates, and nothing cut off."""

        def part(index: int) -> str:
            x = low.slice_axis(node.raw(index), 0, number, 1)
            return low.reshape(x, low.shape(x)[1:])

        self.w, self.r = low.transpose(part(1), (1, 0)), low.transpose(part(2), (1, 0))
        self.hidden = low.shape(self.r)[0]
        self.input_bias = self.state_bias = zeros(low, (gates * self.hidden,), self.w)
        if node.has(3):
            self.input_bias, self.state_bias = split(low, part(3), 2)
        self.peepholes = split(low, part(7), 3) if node.op == "LSTM" and node.has(7) else []
        self._halve_gates()
        self._move_biases()

    def _halve_gates(self) -> None:
        """Where sigmoids are tanhs of the half."""
        if not self.plain or self.node.op == "RNN":
            return
        halves = GRU_HALVES if self.node.op == "GRU" else LSTM_HALVES
        self.w, self.r, self.input_bias, self.state_bias = (
            halved_gates(self.low, x, halves) for x in (self.w, self.r, self.input_bias, self.state_bias)
        )

    def _move_biases(self) -> None:
        """The state's biases that are only added to the input's go there: no step adds them. The others are those of a
        GRU's new state."""
        low, gates = self.low, _GATES[self.node.op]
        moved = np.ones(gates * self.hidden)
        if self.node.op == "GRU":
            moved[2 * self.hidden :] = 0
        line = low.constant(moved, low.dtype(self.state_bias))
        self.input_bias = low.add(self.input_bias, low.mul(self.state_bias, line))
        self.state_bias = low.slice_axis(self.state_bias, 0, (gates - 1) * self.hidden, self.hidden)

    def _product(self, h: str, first: int, gates: int) -> str:
        """The state's part of some gates."""
        weight = self.low.slice_axis(self.r, 1, first * self.hidden, gates * self.hidden)
        return matmul(self.low, h, weight)

    def _sums(self, x: str, h: str, first: int, gates: int) -> str:
        """Both parts of some gates."""
        part = self.low.slice_axis(x, 1, first * self.hidden, gates * self.hidden)
        return self.low.add(part, self._product(h, first, gates))

    def _apart(self, h: str, *runs: range) -> bool:
        """Whether the products of runs of gates are made one by one: each may then have one scale for all weights."""
        name = self.node.raw(2)
        weights = self.low.graph.tensors[name].data
        if weights is None or self.low.shape(h)[0] > 1:
            return False
        rows = weights.reshape(len(weights), _GATES[self.node.op], self.hidden, -1)[self.number]
        return all(evenly_scaled(rows[list(run)].reshape(-1, self.hidden)) for run in runs)

    def project(self, x: str) -> str:
        """Returns the input's part of all gates, [time, batch, gates * H]."""
        return self.low.add(matmul(self.low, x, self.w), self.input_bias)

    def clipped(self, x: str) -> str:
        """What goes into an activation."""
        return x if self.clip is None else self.low.clamp(x, -float(self.clip), float(self.clip))

    def apply(self, number: int, x: str) -> str:
        """The activation of a gate."""
        return self.functions[number](self.clipped(x))

    def step(self) -> Step:
        by_kind = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}
        if self.plain:
            by_kind |= {"GRU": self._plain_gru, "LSTM": self._plain_lstm}
        return by_kind[self.node.op]

    def _rnn(self, x: str, states: list[str]) -> list[str]:
        return [self.apply(0, self._sums(x, states[0], 0, 1))]

    def _plain_gru(self, x: str, states: list[str]) -> list[str]:
        low, h = self.low, states[0]
        apart = self._apart(h, range(1), range(1, 2), range(2, 3))
        if apart:
            z, r = "", low.op("TANH", self._sums(x, h, 1, 1))
        else:
            z, r = split(low, low.op("TANH", self._sums(x, h, 0, 2)), 2)
        if self.node.attr("linear_before_reset", 0):
            inner = low.times(gated(low, low.add(self._product(h, 2, 1), self.state_bias), r), 0.5)
        else:
            inner = low.add(self._product(low.times(gated(low, h, r), 0.5), 2, 1), self.state_bias)
        new = low.op("TANH", low.add(low.slice_axis(x, 1, 2 * self.hidden, self.hidden), inner))
        if apart:
            # The array makes this product while the vector unit works on the others.
            z = low.op("TANH", self._sums(x, h, 0, 1))
        return [gru_output(low, z, new, h)]

    def _plain_lstm(self, x: str, states: list[str]) -> list[str]:
        h, c = states
        runs: tuple[range, ...] = (range(3), range(3, 4))
        if not self._apart(h, *runs):
            runs = (range(4),)
        return lstm_cell(self.low, [self._sums(x, h, run.start, len(run)) for run in runs], c)

    def _gru(self, x: str, states: list[str]) -> list[str]:
        low, h = self.low, states[0]
        xz, xr, xh = split(low, x, 3)
        hz, hr = split(low, self._product(h, 0, 2), 2)
        z, r = self.apply(0, low.add(xz, hz)), self.apply(0, low.add(xr, hr))
        if self.node.attr("linear_before_reset", 0):
            inner = low.mul(r, low.add(self._product(h, 2, 1), self.state_bias))
        else:
            inner = low.add(self._product(low.mul(r, h), 2, 1), self.state_bias)
        new = self.apply(1, low.add(xh, inner))
        return [low.add(low.mul(low.sub(low.scalar(1, z), z), new), low.mul(z, h))]

    def _lstm(self, x: str, states: list[str]) -> list[str]:
        low, (h, c) = self.low, states
        i, o, f, new = split(low, self._sums(x, h, 0, 4), 4)
        if self.peepholes:
            i = low.add(i, low.mul(self.peepholes[0], c))
            f = low.add(f, low.mul(self.peepholes[2], c))
        i = self.apply(0, i)
        f = low.sub(low.scalar(1, i), i) if self.node.attr("input_forget", 0) else self.apply(0, f)
        c = low.add(low.mul(f, c), low.mul(i, self.apply(1, new)))
        if self.peepholes:
            o = low.add(o, low.mul(self.peepholes[1], c))
        return [low.mul(self.apply(0, o), self.functions[2](c)), c]


@handles("RNN", "GRU", "LSTM")
def recurrent(node: OnnxNode) -> list[OnnxValue]:
    """X [time, batch, I] (layout 1: batch first) to Y [time, directions, batch, H] and the last states."""
    low, layout = node.low, node.attr("layout", 0)
    directions, hidden = node.shape(2)[0], node.shape(2)[2]
    x = low.transpose(node.raw(), (1, 0, 2)) if layout else node.raw()
    batch = low.shape(x)[1]
    lengths = low.cast(node.raw(4), DType.INT32) if node.has(4) else None
    functions = _functions(node, directions)
    outputs, lasts = [], []
    for number in range(directions):
        direction = _Direction(node, number, functions[number])
        states = [
            _initial(node, 5 + k, number, (batch, hidden), layout) for k in range(1 + (node.op == "LSTM"))
        ]
        backwards = number == 1 or node.attr("direction", "forward") == "reverse"
        each, last = unroll(
            low, direction.project(x), states, direction.step(), reverse=backwards, lengths=lengths
        )
        outputs.append(stacked(low, each))
        lasts.append(last)
    y = low.concat([low.reshape(part, (*low.shape(part)[:1], 1, batch, hidden)) for part in outputs], 1)
    finals = [stacked(low, parts) for parts in zip(*lasts, strict=True)]
    if layout:
        y = low.transpose(y, (2, 0, 1, 3))
        finals = [low.transpose(final, (1, 0, 2)) for final in finals]
    return [node.out_raw(tensor) for tensor in (y, *finals)]


def _initial(node: OnnxNode, index: int, direction: int, shape: tuple[int, int], layout: int) -> str:
    if not node.has(index):
        return zeros(node.low, shape, node.raw())
    return node.low.reshape(node.low.slice_axis(node.raw(index), 1 if layout else 0, direction, 1), shape)


def _names(node: OnnxNode, usual: list[str]) -> list[str]:
    """The activations' names."""
    return [n.decode() if isinstance(n, bytes) else n for n in node.attr("activations", [])] or usual


def _functions(node: OnnxNode, directions: int) -> list[list[Activation]]:
    """The activations of each direction; their alphas and betas are listed for those that have one."""
    names = _names(node, _DEFAULTS[node.op] * directions)
    if len(names) != len(_DEFAULTS[node.op]) * directions:
        node.unsupported(
            f"activations {names} for {directions} directions", "give one for each gate and direction"
        )
    alphas, betas = (iter(node.attr(f"activation_{kind}", [])) for kind in ("alpha", "beta"))
    made = []
    for name in names:
        alpha = next(alphas, _ALPHA[name]) if name in _ALPHA else None
        beta = next(betas, _BETA[name]) if name in _BETA else None
        made.append(_activation(node, name, alpha, beta))
    each = len(names) // directions
    return [made[first : first + each] for first in range(0, len(made), each)]


def _activation(node: OnnxNode, name: str, alpha: Any, beta: Any) -> Activation:
    low: Lowering = node.low
    known: dict[str, Activation] = {
        "Relu": lambda x: activations.relu(low, x),
        "Tanh": lambda x: low.op("TANH", x),
        "Sigmoid": lambda x: low.op("SIGMOID", x),
        "Affine": lambda x: low.plus(low.times(x, alpha), beta),
        "LeakyRelu": lambda x: activations.leaky_relu(low, x, low.scalar(alpha, x)),
        "ThresholdedRelu": lambda x: low.select(low.greater(x, low.scalar(alpha, x)), x, low.scalar(0, x)),
        "ScaledTanh": lambda x: low.times(low.op("TANH", low.times(x, beta)), alpha),
        "HardSigmoid": lambda x: activations.hard_sigmoid(low, x, alpha, beta),
        "Elu": lambda x: activations.elu(low, x, alpha),
        "Softsign": lambda x: activations.softsign(low, x),
        "Softplus": lambda x: activations.softplus(low, x),
    }
    if name not in known:
        node.unsupported(f"activation {name!r}", f"use one of {', '.join(sorted(known))}")
    return known[name]
