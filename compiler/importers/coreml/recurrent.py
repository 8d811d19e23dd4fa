"""Recurrent layers, unrolled: the length of the sequence is static."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tosaic.compiler.importers.coreml.activation import activate
from tosaic.compiler.importers.coreml.layer import Blob, Layer
from tosaic.compiler.importers.coreml.registry import handles
from tosaic.compiler.importers.lowering.matrix import matmul

MAX_STEPS = 4096
_CLIP = 50.0


@dataclass
class Sequence5:
    """The first input, [Seq, Batch, C, 1, 1]."""

    steps: int
    batch: int


def _sequence(layer: Layer) -> Sequence5:
    p, shape = layer.params, layer.shape()
    fits = len(shape) == 5 and shape[3:] == (1, 1) and shape[2] == p.inputVectorSize
    layer.require(fits, f"its input must have shape [Seq, Batch, {p.inputVectorSize}, 1, 1]")
    layer.require(p.outputVectorSize > 0, "outputVectorSize is 0")
    if shape[0] > MAX_STEPS:
        layer.unsupported(f"{shape[0]} steps are unrolled; {MAX_STEPS} are the limit", "run it in parts")
    return Sequence5(shape[0], shape[1])


class _Gate:
    """act(clip(W x + R y + b)) for every step; W x is one product for the whole sequence."""

    def __init__(
        self, layer: Layer, weights: str, recursion: str, bias: str | None, params: Any = None
    ) -> None:
        low, p, size = layer.low, layer.params, int(layer.params.outputVectorSize)
        matrix = layer.weights(weights, (size, p.inputVectorSize), params=params)
        self.layer = layer
        self.recursion = layer.constant(layer.weights(recursion, (size, size), params=params).T)
        steps, batch = layer.shape()[:2]
        rows = low.reshape(layer.inputs[0].tensor, (steps * batch, p.inputVectorSize))
        product = matmul(low, rows, layer.constant(matrix.T))
        if bias is not None:
            product = low.add(product, layer.constant(layer.weights(bias, [size], params=params)))
        self.inputs = low.reshape(product, (steps, batch, size))

    def __call__(self, step: int, state: str, extra: str | None = None) -> str:
        """The clipped sum of a step, [Batch, size]."""
        low = self.layer.low
        batch, size = low.shape(self.inputs)[1:]
        total = low.reshape(low.slice_axis(self.inputs, 0, step, 1), (batch, size))
        total = low.add(total, matmul(low, state, self.recursion))
        if extra is not None:
            total = low.add(total, extra)
        return low.clamp(total, -_CLIP, _CLIP)


def _state(layer: Layer, index: int, batch: int) -> str:
    """A state input [1, Batch, size, 1, 1] as [Batch, size]; zeros when there is none."""
    size = int(layer.params.outputVectorSize)
    if index >= len(layer.inputs):
        return layer.constant([[0.0] * size] * batch)
    shape = layer.shape(index)
    layer.require(
        shape in ((1, batch, size, 1, 1), (1, 1, size, 1, 1), (size,)), f"a state of shape {list(shape)}"
    )
    flat = layer.low.reshape(layer.x(index), (shape[1] if len(shape) == 5 else 1, size))
    return layer.low.broadcast_to(flat, (batch, size))


def _collected(layer: Layer, steps: Sequence[str], whole: bool) -> Blob:
    """States by step (in the order of the input) as the result; only the last one unless `whole`."""
    low = layer.low
    batch, size = low.shape(steps[0])
    kept = [low.reshape(step, (1, batch, size)) for step in steps]
    joined = low.concat(kept, 0) if whole else kept[-1]
    return layer.out(joined, (len(kept) if whole else 1, batch, size, 1, 1))


def _as_state(layer: Layer, state: str) -> Blob:
    batch, size = layer.low.shape(state)
    return layer.out(state, (1, batch, size, 1, 1))


def _results(layer: Layer, states: list[str], backwards: bool, sequence: bool) -> Blob:
    """`states` in the order of computation; a sequence stands in the order of the input."""
    if not sequence:
        return _collected(layer, states, whole=False)
    return _collected(layer, states[::-1] if backwards else states, whole=True)


def _order(steps: int, backwards: bool) -> Sequence[int]:
    return range(steps)[::-1] if backwards else range(steps)


@handles("simpleRecurrent")
def simple_recurrent(layer: Layer) -> list[Blob]:
    """y_t = f(clip(W x_t + R y_{t-1} + b))."""
    p, sequence = layer.params, _sequence(layer)
    gate = _Gate(layer, "weightMatrix", "recursionMatrix", "biasVector" if p.hasBiasVector else None)
    state, states = _state(layer, 1, sequence.batch), []
    for step in _order(sequence.steps, p.reverseInput):
        state = activate(layer, gate(step, state), p.activation)
        states.append(state)
    return [_results(layer, states, p.reverseInput, p.sequenceOutput), _as_state(layer, state)]


@handles("gru")
def gru(layer: Layer) -> list[Blob]:
    """The reset gate is applied before the recursion matrix."""
    low, p, sequence = layer.low, layer.params, _sequence(layer)
    layer.require(len(p.activations) == 2, f"it has {len(p.activations)} activations, not 2")
    update, reset, output = (
        _Gate(
            layer,
            f"{name}GateWeightMatrix",
            f"{name}GateRecursionMatrix",
            f"{name}GateBiasVector" if p.hasBiasVectors else None,
        )
        for name in ("update", "reset", "output")
    )
    inner, outer = p.activations
    state, states = _state(layer, 1, sequence.batch), []
    for step in _order(sequence.steps, p.reverseInput):
        z = activate(layer, update(step, state), inner)
        r = activate(layer, reset(step, state), inner)
        o = activate(layer, output(step, low.mul(state, r)), outer)
        state = low.add(low.mul(low.sub(low.scalar(1, z), z), o), low.mul(z, state))
        states.append(state)
    return [_results(layer, states, p.reverseInput, p.sequenceOutput), _as_state(layer, state)]


@handles("uniDirectionalLSTM")
def lstm(layer: Layer) -> list[Blob]:
    """Outputs: the states y, the last y, the last cell."""
    p, sequence = layer.params, _sequence(layer)
    layer.require(len(layer.inputs) in (1, 3), f"it has {len(layer.inputs)} inputs, not 1 or 3")
    y, c = _state(layer, 1, sequence.batch), _state(layer, 2, sequence.batch)
    states, cell = _lstm(layer, p.weightParams, p.activations, y, c, p.reverseInput)
    result = _results(layer, states, p.reverseInput, p.params.sequenceOutput)
    return [result, _as_state(layer, states[-1]), _as_state(layer, cell)]


@handles("biDirectionalLSTM")
def bidirectional_lstm(layer: Layer) -> list[Blob]:
    """Both directions side by side, 2 * outputVectorSize channels; then the last states of each."""
    low, p, sequence = layer.low, layer.params, _sequence(layer)
    layer.require(len(layer.inputs) in (1, 5), f"it has {len(layer.inputs)} inputs, not 1 or 5")
    layer.require(len(p.weightParams) == 2, f"it has {len(p.weightParams)} sets of weights, not 2")
    batch, parts, ends = sequence.batch, [], []
    directions = ((p.activationsForwardLSTM, False), (p.activationsBackwardLSTM, True))
    for index, (activations, backwards) in enumerate(directions):
        y, c = _state(layer, 1 + 2 * index, batch), _state(layer, 2 + 2 * index, batch)
        states, cell = _lstm(layer, p.weightParams[index], activations, y, c, backwards)
        ends += [_as_state(layer, states[-1]), _as_state(layer, cell)]
        parts.append(states[::-1] if backwards and p.params.sequenceOutput else states)
    both = [low.concat([a, b], 1) for a, b in zip(*parts, strict=True)]
    return [_collected(layer, both, p.params.sequenceOutput), *ends]


def _lstm(
    layer: Layer, weights: Any, activations: Any, y: str, c: str, backwards: bool
) -> tuple[list[str], str]:
    """The states y in the order of computation, and the last cell."""
    low, p, size = layer.low, layer.params.params, int(layer.params.outputVectorSize)
    layer.require(len(activations) == 3, f"it has {len(activations)} activations, not 3")
    f, g, h = activations

    def gate(name: str) -> _Gate:
        bias = f"{name}BiasVector" if p.hasBiasVectors else None
        return _Gate(layer, f"{name}WeightMatrix", f"{name}RecursionMatrix", bias, weights)

    def peephole(name: str, cell: str) -> str | None:
        if not p.hasPeepholeVectors:
            return None
        vector = layer.constant(layer.weights(f"{name}PeepholeVector", [size], params=weights))
        return low.mul(cell, vector)

    into, block, out = gate("inputGate"), gate("blockInput"), gate("outputGate")
    forget = None if p.coupledInputAndForgetGate else gate("forgetGate")
    limit = p.cellClipThreshold or _CLIP
    states = []
    for step in _order(layer.shape()[0], backwards):
        i = activate(layer, into(step, y, peephole("inputGate", c)), f)
        z = activate(layer, block(step, y), g)
        if forget is None:
            kept = low.sub(low.scalar(1, i), i)
        else:
            extra = peephole("forgetGate", c)
            if p.forgetBias:
                one = low.scalar(1, y)
                extra = low.add(extra, one) if extra else one
            kept = activate(layer, forget(step, y, extra), f)
        c = low.clamp(low.add(low.mul(c, kept), low.mul(i, z)), -limit, limit)
        o = activate(layer, out(step, y, peephole("outputGate", c)), f)
        y = low.mul(activate(layer, c, h), o)
        states.append(y)
    return states, c
