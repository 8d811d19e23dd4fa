"""Recurrent layers, unrolled in time; what they remember stays from run to run, as in TFLite's interpreter."""

import numpy as np

from tosaic.compiler.importers.lowering.matrix import matmul
from tosaic.compiler.importers.lowering.recurrent import (
    LSTM_HALVES,
    Step,
    halved_gates,
    lstm_cell,
    stacked,
    unroll,
)
from tosaic.compiler.importers.tflite.arithmetic import fused_reals
from tosaic.compiler.importers.tflite.integer_lstm import (
    BIAS,
    CELL_STATE,
    INPUT,
    LAYER_NORM,
    OUTPUT_STATE,
    PEEPHOLE,
    PROJECTION,
    PROJECTION_BIAS,
    RECURRENT,
    integer_lstm,
)
from tosaic.compiler.importers.tflite.multipliers import quantized_multiplier, rescale
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.registry import handles
from tosaic.compiler.ir import DType

_CELL_ORDER = (0, 3, 1, 2)
"""The gates in the order of `lstm_cell`."""


@handles("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(node: TfliteNode) -> str:
    """[batch, time, features] (or time first): four gates, of which the input's may be 1 - forget."""
    low = node.low
    if node.is_quantized:
        return integer_lstm(node)
    if any(node.has(index) for index in range(LAYER_NORM, LAYER_NORM + 4)):
        node.unsupported("layer normalization inside of the gates", "write it as operators")
    first = bool(node.option("TimeMajor", False))
    x = node.x() if first else low.transpose(node.x(), (1, 0, 2))
    states = [node.x(OUTPUT_STATE), node.x(CELL_STATE)]
    if _is_plain(node):
        outputs, (h, c) = _plain_lstm(node, x, states)
    else:
        outputs, (h, c) = _any_lstm(node, x, states)
    node.changes = {OUTPUT_STATE: h, CELL_STATE: c}
    y = stacked(low, outputs)
    return y if first else low.transpose(y, (1, 0, 2))


def _is_plain(node: TfliteNode) -> bool:
    """Whether the cell is the one that most networks have: four gates, tanh, nothing cut off."""
    more = [INPUT, *range(PEEPHOLE, PEEPHOLE + 3), PROJECTION]
    limits = [float(node.option(option, 0.0)) for option in ("CellClip", "ProjClip")]
    tanh = node.choice("FusedActivationFunction", "ActivationFunctionType") == "TANH"
    return tanh and max(limits) <= 0 and [node.has(index) for index in more] == [True] + [False] * 4


def _plain_lstm(node: TfliteNode, x: str, states: list[str]) -> tuple[list[str], list[str]]:
    """All gates by one product."""
    low = node.low

    def joined(first: int) -> str:
        return low.concat([low.transpose(node.real(first + gate), (1, 0)) for gate in _CELL_ORDER], 1)

    sums = matmul(low, x, halved_gates(low, joined(INPUT), LSTM_HALVES))
    if node.has(BIAS + 1):
        bias = low.concat([node.real(BIAS + gate) for gate in _CELL_ORDER], 0)
        sums = low.add(sums, halved_gates(low, bias, LSTM_HALVES))
    recurrent = halved_gates(low, joined(RECURRENT), LSTM_HALVES)

    def step(x_t: str, states: list[str]) -> list[str]:
        h, c = states
        return lstm_cell(low, [low.add(x_t, matmul(low, h, recurrent))], c)

    return unroll(low, sums, states, step)


def _any_lstm(node: TfliteNode, x: str, states: list[str]) -> tuple[list[str], list[str]]:
    low = node.low
    gates = [gate for gate in range(4) if node.has(INPUT + gate)]
    parts = {gate: matmul(low, x, low.transpose(node.real(INPUT + gate), (1, 0))) for gate in gates}
    for gate in gates:
        if node.has(BIAS + gate):
            parts[gate] = low.add(parts[gate], node.real(BIAS + gate))
    sizes = [low.shape(parts[gate])[2] for gate in gates]
    joined = low.concat([parts[gate] for gate in gates], 2)
    return unroll(low, joined, states, _lstm_step(node, gates, sizes))


def _lstm_step(node: TfliteNode, gates: list[int], sizes: list[int]) -> Step:
    low = node.low
    recurrent = {gate: low.transpose(node.real(RECURRENT + gate), (1, 0)) for gate in gates}

    def clipped(x: str, option: str) -> str:
        limit = float(node.option(option, 0.0))
        return low.clamp(x, -limit, limit) if limit > 0 else x

    def peephole(gate: int, x: str, cell: str) -> str:
        index = PEEPHOLE + (0, 1, -1, 2)[gate]
        return low.add(x, low.mul(node.real(index), cell)) if gate != 2 and node.has(index) else x

    def step(x_t: str, states: list[str]) -> list[str]:
        h, c = states
        starts = np.cumsum([0, *sizes])
        sums = {
            gate: low.add(low.slice_axis(x_t, 1, int(start), size), matmul(low, h, recurrent[gate]))
            for gate, start, size in zip(gates, starts, sizes, strict=False)
        }
        forget = low.op("SIGMOID", peephole(1, sums[1], c))
        written = (
            low.op("SIGMOID", peephole(0, sums[0], c))
            if 0 in sums
            else low.sub(low.scalar(1, forget), forget)
        )
        c = low.add(low.mul(forget, c), low.mul(written, fused_reals(node, sums[2])))
        c = clipped(c, "CellClip")
        y = low.mul(low.op("SIGMOID", peephole(3, sums[3], c)), fused_reals(node, c))
        if node.has(PROJECTION):
            y = matmul(low, y, low.transpose(node.real(PROJECTION), (1, 0)))
            y = low.add(y, node.real(PROJECTION_BIAS)) if node.has(PROJECTION_BIAS) else y
            y = clipped(y, "ProjClip")
        return [y, c]

    return step


@handles("UNIDIRECTIONAL_SEQUENCE_RNN", "RNN")
def rnn(node: TfliteNode) -> str:
    """x, input weights, recurrent weights, bias, state: activation(x W' + h R' + b)."""
    low = node.low
    if node.is_quantized:
        node.unsupported("quantized integers", "leave the layer in float32, and quantize it here")
    single = node.kind == "RNN"
    first = single or bool(node.option("TimeMajor", False))
    x = low.reshape(node.x(), (1, *node.shape())) if single else node.x()
    x = x if first else low.transpose(x, (1, 0, 2))
    inner = low.add(matmul(low, x, low.transpose(node.real(1), (1, 0))), node.real(3))
    recurrent = low.transpose(node.real(2), (1, 0))

    def step(x_t: str, states: list[str]) -> list[str]:
        return [fused_reals(node, low.add(x_t, matmul(low, states[0], recurrent)))]

    outputs, (h,) = unroll(low, inner, [node.x(4)], step)
    node.changes = {4: h}
    if single:
        return outputs[0]
    y = stacked(low, outputs)
    return y if first else low.transpose(y, (1, 0, 2))


@handles("SVDF")
def svdf(node: TfliteNode) -> str:
    """x, feature weights [F, C], time weights [F, memory], bias, state [N, F * memory]: filters over time."""
    low, rank = node.low, node.option("Rank", 1)
    (batch, _), (filters, _), memory = node.shape(), node.shape(1), node.shape(2)[1]
    if node.is_quantized:
        feature = _integer_feature(node)
        weights = low.cast(node.x(2), DType.INT32)
    else:
        feature = matmul(low, node.x(), low.transpose(node.real(1), (1, 0)))
        weights = node.real(2)
    held = low.reshape(node.x(4), (batch, filters, memory))
    kept = [low.slice_axis(held, 2, 1, memory - 1)] if memory > 1 else []
    held = low.concat([*kept, low.reshape(feature, (batch, filters, 1))], 2)
    node.changes = {4: low.reshape(held, (batch, filters * memory))}
    wide = low.cast(held, DType.INT32) if node.is_quantized else held
    sums = low.reduce("SUM", low.mul(wide, low.reshape(weights, (1, filters, memory))), [2], keep=False)
    units = filters // rank
    sums = low.reduce("SUM", low.reshape(sums, (batch, units, rank)), [2], keep=False)
    if not node.is_quantized:
        y = low.add(sums, node.real(3)) if node.has(3) else sums
        return fused_reals(node, y)
    y = low.add(sums, node.x(3)) if node.has(3) else sums
    state, weight, result = node.value(4), node.value(2), node.result()
    ratio = float(state.scale) * float(weight.scale) / float(result.scale)
    # The kernel takes no notice of the fused activation.
    return rescale(node, y, [quantized_multiplier(ratio)], node.result_type(), 0, result.zero_point)


def _integer_feature(node: TfliteNode) -> str:
    """The newest column of the state: 16 bits."""
    low, value, weight, state = node.low, node.value(), node.value(1), node.value(4)
    if low.dtype(state.tensor) is not DType.INT16:
        node.unsupported(f"a state of {state.kind.lower()}", "quantize the model again, with a 16-bit state")
    product = matmul(low, node.x(), low.transpose(node.x(1), (1, 0)), (value.zero_point, weight.zero_point))
    ratio = float(value.scale) * float(weight.scale) / float(state.scale)
    return rescale(node, product, [quantized_multiplier(ratio)], DType.INT16)
