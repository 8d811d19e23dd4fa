"""Recurrent layers, unrolled: the length of the sequence is static."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.coreml.activation import activate
from tosaic.compiler.importers.coreml.node import CoreMlNode, CoreMlValue
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.recurrent import split, stacked, unroll

MAX_STEPS = 4096
_CLIP = 50.0


def _batch(node: CoreMlNode) -> int:
    """Batch of the first input, which is [Seq, Batch, inputVectorSize, 1, 1]."""
    p, shape = node.params, node.shape()
    fits = len(shape) == 5 and shape[3:] == (1, 1) and shape[2] == p.inputVectorSize
    node.require(fits, f"its input must have shape [Seq, Batch, {p.inputVectorSize}, 1, 1]")
    node.require(p.outputVectorSize > 0, "outputVectorSize is 0")
    node.affordable(shape[1] * int(p.outputVectorSize), "its state")
    if shape[0] > MAX_STEPS:
        node.unsupported(f"{shape[0]} steps are unrolled; {MAX_STEPS} are the limit", "run it in parts")
    return shape[1]


def _projected(node: CoreMlNode, weights: Sequence[str], biases: Sequence[str], params: Any = None) -> str:
    """Returns W x + b of several gates for the whole sequence, [Seq, Batch, gates * size]: one product."""
    low, inner, size = node.low, int(node.params.inputVectorSize), int(node.params.outputVectorSize)
    steps, batch = node.shape()[:2]
    matrix = np.concatenate([node.weights(name, (size, inner), params=params) for name in weights])
    rows = low.reshape(node.inputs[0].tensor, (steps * batch, inner))
    product = matmul(low, rows, node.constant(matrix.T))
    if biases:
        bias = np.concatenate([node.weights(name, [size], params=params) for name in biases])
        product = low.add(product, node.constant(bias))
    return low.reshape(product, (steps, batch, len(weights) * size))


def _recursion(node: CoreMlNode, names: Sequence[str], params: Any = None) -> str:
    """The recursion matrices of several gates side by side, [size, gates * size]."""
    size = int(node.params.outputVectorSize)
    return node.constant(np.concatenate([node.weights(n, (size, size), params=params) for n in names]).T)


def _clipped(node: CoreMlNode, *terms: str) -> str:
    total = terms[0]
    for term in terms[1:]:
        total = node.low.add(total, term)
    return node.low.clamp(total, -_CLIP, _CLIP)


def _state(node: CoreMlNode, index: int, batch: int) -> str:
    """A state input [1, Batch, size, 1, 1] as [Batch, size]; zeros when there is none."""
    size = int(node.params.outputVectorSize)
    if index >= len(node.inputs):
        return node.constant(np.zeros((batch, size), np.float32))
    shape = node.shape(index)
    # Converters put the axes of one before or behind.
    wide = [extent for extent in shape if extent != 1]
    whole = [extent for extent in (batch, size) if extent != 1]
    node.require(wide in (whole, [size] if size > 1 else []), f"a state of shape {list(shape)}")
    flat = node.low.reshape(node.x(index), (batch if wide == whole else 1, size))
    return node.low.broadcast_to(flat, (batch, size))


def _result(node: CoreMlNode, outputs: Sequence[str], last: str, sequence: bool) -> CoreMlValue:
    """Every output in the order of the input, or the last one that was computed."""
    whole = stacked(node.low, outputs if sequence else [last])
    return node.out(whole, (*node.low.shape(whole), 1, 1))


def _as_state(node: CoreMlNode, state: str) -> CoreMlValue:
    return node.out(state, (1, *node.low.shape(state), 1, 1))


@handles("simpleRecurrent")
def simple_recurrent(node: CoreMlNode) -> list[CoreMlValue]:
    """Computes y_t = f(clip(W x_t + R y_{t-1} + b))."""
    low, p, batch = node.low, node.params, _batch(node)
    x = _projected(node, ["weightMatrix"], ["biasVector"] if p.hasBiasVector else [])
    recursion = _recursion(node, ["recursionMatrix"])

    def step(x_t: str, states: list[str]) -> list[str]:
        return [activate(node, _clipped(node, x_t, matmul(low, states[0], recursion)), p.activation)]

    outputs, (last,) = unroll(low, x, [_state(node, 1, batch)], step, reverse=p.reverseInput)
    return [_result(node, outputs, last, p.sequenceOutput), _as_state(node, last)]


@handles("gru")
def gru(node: CoreMlNode) -> list[CoreMlValue]:
    """The reset gate is applied before the recursion matrix."""
    low, p, batch = node.low, node.params, _batch(node)
    node.require(len(p.activations) == 2, f"it has {len(p.activations)} activations, not 2")
    names = [f"{name}Gate" for name in ("update", "reset", "output")]
    biases = [f"{name}BiasVector" for name in names] if p.hasBiasVectors else []
    x = _projected(node, [f"{name}WeightMatrix" for name in names], biases)
    gates = _recursion(node, [f"{name}RecursionMatrix" for name in names[:2]])
    output = _recursion(node, ["outputGateRecursionMatrix"])
    inner, outer = p.activations

    def step(x_t: str, states: list[str]) -> list[str]:
        (y,) = states
        update, reset, out = split(low, x_t, 3)
        r_update, r_reset = split(low, matmul(low, y, gates), 2)
        z = activate(node, _clipped(node, update, r_update), inner)
        r = activate(node, _clipped(node, reset, r_reset), inner)
        o = activate(node, _clipped(node, out, matmul(low, low.mul(y, r), output)), outer)
        return [low.add(low.mul(low.sub(low.scalar(1, z), z), o), low.mul(z, y))]

    outputs, (last,) = unroll(low, x, [_state(node, 1, batch)], step, reverse=p.reverseInput)
    return [_result(node, outputs, last, p.sequenceOutput), _as_state(node, last)]


@handles("uniDirectionalLSTM")
def lstm(node: CoreMlNode) -> list[CoreMlValue]:
    """Outputs: the states y, the last y, the last cell."""
    p, batch = node.params, _batch(node)
    node.require(len(node.inputs) in (1, 3), f"it has {len(node.inputs)} inputs, not 1 or 3")
    states = [_state(node, index, batch) for index in (1, 2)]
    outputs, (y, c) = _lstm(node, p.weightParams, p.activations, states, p.reverseInput)
    return [_result(node, outputs, y, p.params.sequenceOutput), _as_state(node, y), _as_state(node, c)]


@handles("biDirectionalLSTM")
def bidirectional_lstm(node: CoreMlNode) -> list[CoreMlValue]:
    """Both directions side by side, 2 * outputVectorSize channels; then the last states of each."""
    low, p, batch = node.low, node.params, _batch(node)
    node.require(len(node.inputs) in (1, 5), f"it has {len(node.inputs)} inputs, not 1 or 5")
    node.require(len(p.weightParams) == 2, f"it has {len(p.weightParams)} sets of weights, not 2")
    directions = ((p.activationsForwardLSTM, False), (p.activationsBackwardLSTM, True))
    parts, last, ends = [], [], []
    for index, (activations, backwards) in enumerate(directions):
        states = [_state(node, 1 + 2 * index + which, batch) for which in (0, 1)]
        outputs, (y, c) = _lstm(node, p.weightParams[index], activations, states, backwards)
        parts.append(outputs)
        last.append(y)
        ends += [_as_state(node, y), _as_state(node, c)]
    both = [low.concat(pair, 1) for pair in zip(*parts, strict=True)]
    return [_result(node, both, low.concat(last, 1), p.params.sequenceOutput), *ends]


def _lstm(
    node: CoreMlNode, weights: Any, activations: Any, states: list[str], backwards: bool
) -> tuple[list[str], list[str]]:
    """The outputs y in the order of the input, and the last y and cell."""
    low, p, size = node.low, node.params.params, int(node.params.outputVectorSize)
    node.require(len(activations) == 3, f"it has {len(activations)} activations, not 3")
    f, g, h = activations
    names = ["inputGate", "blockInput", "outputGate"]
    names += [] if p.coupledInputAndForgetGate else ["forgetGate"]
    biases = [f"{name}BiasVector" for name in names] if p.hasBiasVectors else []
    x = _projected(node, [f"{name}WeightMatrix" for name in names], biases, weights)
    recursion = _recursion(node, [f"{name}RecursionMatrix" for name in names], weights)
    limit = p.cellClipThreshold or _CLIP
    # A limit below 0 would be an empty range.
    node.require(limit > 0, f"cellClipThreshold is {limit}")

    def peephole(name: str, cell: str) -> list[str]:
        if not p.hasPeepholeVectors:
            return []
        return [low.mul(cell, node.constant(node.weights(f"{name}PeepholeVector", [size], params=weights)))]

    def step(x_t: str, states: list[str]) -> list[str]:
        y, c = states
        sums = [
            low.add(a, b)
            for a, b in zip(
                split(low, x_t, len(names)), split(low, matmul(low, y, recursion), len(names)), strict=True
            )
        ]
        i = activate(node, _clipped(node, sums[0], *peephole("inputGate", c)), f)
        z = activate(node, _clipped(node, sums[1]), g)
        if p.coupledInputAndForgetGate:
            kept = low.sub(low.scalar(1, i), i)
        else:
            one = [low.scalar(1, y)] if p.forgetBias else []
            kept = activate(node, _clipped(node, sums[3], *peephole("forgetGate", c), *one), f)
        c = low.clamp(low.add(low.mul(c, kept), low.mul(i, z)), -limit, limit)
        o = activate(node, _clipped(node, sums[2], *peephole("outputGate", c)), f)
        return [low.mul(activate(node, c, h), o), c]

    return unroll(low, x, states, step, reverse=backwards)
