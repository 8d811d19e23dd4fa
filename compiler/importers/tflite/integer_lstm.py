"""TFLite's integer LSTM: int8 input, weights and output, int16 gates and cell, bit for bit as its kernel computes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.importers.lowering.convolution import convolve
from tosaic.compiler.importers.lowering.recurrent import stacked, unroll
from tosaic.compiler.importers.lowering.rescaling import ONE, rescaled
from tosaic.compiler.importers.lowering.windows import AxisWindow
from tosaic.compiler.importers.tflite import fixed_point
from tosaic.compiler.importers.tflite.multipliers import Multiplier, quantized_multiplier, rescale
from tosaic.compiler.importers.tflite.node import TfliteNode
from tosaic.compiler.importers.tflite.wide_curves import looked_up
from tosaic.compiler.ir import DType

INPUT, RECURRENT, PEEPHOLE, BIAS = 1, 5, 9, 12
"""First inputs of their kind: four gates (input, forget, cell, output) of weights, three of peepholes."""
PROJECTION, PROJECTION_BIAS, OUTPUT_STATE, CELL_STATE, LAYER_NORM = 16, 17, 18, 19, 20

_CELL_GATE = 2
_GATE_SCALE = 2.0**-12
_GATE_INTEGER_BITS = 3
_SHORT_BITS = 15
"""Fraction bits of what sigmoid and tanh give."""
_HIDDEN = 4
"""The intermediate that has the encoding of the output gate's product."""


@dataclass(frozen=True)
class _Line:
    """A product with weights: [outputs, depth], a bias that holds the input's zero point, a multiplier per output."""

    weights: np.ndarray
    bias: np.ndarray
    multipliers: list[Multiplier]

    def sums(self, node: TfliteNode, x: str) -> str:
        """int32 [rows, outputs] of x [rows, depth], before the multipliers."""
        low, (outputs, depth) = node.low, self.weights.shape
        kernel = low.constant(self.weights.reshape(outputs, 1, 1, depth), DType.INT8)
        pixels = low.reshape(x, (low.shape(x)[0], 1, 1, depth))
        bias = low.constant(self.bias, DType.INT32)
        sums = convolve(low, pixels, kernel, bias, [AxisWindow(1), AxisWindow(1)])
        return low.reshape(sums, (low.shape(x)[0], outputs))


def integer_lstm(node: TfliteNode) -> str:
    """[batch, time, features] int8 (or time first); the states are int8 and int16."""
    _Checks(node).run()
    low, first = node.low, bool(node.option("TimeMajor", False))
    x = node.x() if first else low.transpose(node.x(), (1, 0, 2))
    times, batch, depth = low.shape(x)
    gates = [gate for gate in range(4) if node.has(INPUT + gate)]
    line = _gate_line(node, gates, INPUT, node.value().scale, node.value().zero_point, BIAS)
    sums = line.sums(node, low.reshape(x, (times * batch, depth)))
    inner = rescale(node, sums, line.multipliers, DType.INT16)
    inner = low.reshape(inner, (times, batch, low.shape(inner)[1]))
    cell = _Cell(node, gates)
    outputs, (h, c) = unroll(low, inner, [node.x(OUTPUT_STATE), node.x(CELL_STATE)], cell.step)
    node.changes = {OUTPUT_STATE: h, CELL_STATE: c}
    y = stacked(low, outputs)
    return y if first else low.transpose(y, (1, 0, 2))


class _Checks:
    """Refuses by name what the kernel is not known to compute, or TOSA cannot say."""

    def __init__(self, node: TfliteNode) -> None:
        self.node = node

    def run(self) -> None:
        """All of them."""
        node, again = self.node, "quantize the model again"
        if any(node.has(index) for index in range(LAYER_NORM, LAYER_NORM + 4)):
            node.unsupported(
                "layer normalization inside of the gates", "leave the layer in float32, and quantize it here"
            )
        kinds = [(0, "INT8"), (OUTPUT_STATE, "INT8"), (CELL_STATE, "INT16")]
        kinds += [(INPUT + gate, "INT8") for gate in range(8) if node.has(INPUT + gate)]
        for index, kind in kinds:
            found = node.value(index)
            if found.kind != kind or found.quantization is None:
                node.unsupported(
                    f"{found.name!r} is {found.kind.lower()}; TFLite's kernel has it quantized to {kind.lower()}",
                    "leave the layer in float32, and quantize it here",
                )
        if len(node.intermediates) <= _HIDDEN or node.intermediates[_HIDDEN].quantization is None:
            node.unsupported("it does not tell the encoding of its hidden state", again)
        mantissa, exponent = np.frexp(float(node.value(CELL_STATE).scale))
        if mantissa != 0.5 or not 0 <= _SHORT_BITS + exponent - 1 <= 6:
            node.unsupported(f"a cell state of scale {node.value(CELL_STATE).scale}", again)
        if node.choice("FusedActivationFunction", "ActivationFunctionType") != "TANH":
            # The kernel takes no notice of it: what the model means is not what it computes.
            node.unsupported("a fused activation other than tanh", again)


def _gate_line(
    node: TfliteNode, gates: Sequence[int], first: int, scale: np.float32, zero_point: int, bias: int | None
) -> _Line:
    """The weights of all gates, which are `first` and following inputs, in one."""
    weights, biases, multipliers = [], [], []
    for gate in gates:
        value = node.value(first + gate)
        matrix = node.known(first + gate).astype(np.int64)
        line = -zero_point * matrix.sum(1)
        weights.append(matrix)
        biases.append(line if bias is None else line + node.known(bias + gate).astype(np.int64))
        ratio = np.float32(value.scale * scale) / np.float32(_GATE_SCALE)
        multipliers += [quantized_multiplier(float(ratio))] * matrix.shape[0]
    return _Line(np.concatenate(weights), np.concatenate(biases), multipliers)


class _Cell:
    """A step of the layer, with what all steps share."""

    def __init__(self, node: TfliteNode, gates: list[int]) -> None:
        self.node, self.low, self.gates = node, node.low, gates
        output, cell = node.value(OUTPUT_STATE), node.value(CELL_STATE)
        self.units = node.shape(INPUT + 1)[0]
        self.recurrent = _gate_line(node, gates, RECURRENT, output.scale, output.zero_point, None)
        self.cell_exponent = int(np.frexp(float(cell.scale))[1]) - 1
        hidden = node.intermediates[_HIDDEN].quantization
        assert hidden is not None
        self.hidden_zero = hidden.zero_point
        self.hidden = quantized_multiplier(float(np.float32(2.0**-30 / float(hidden.scale))))
        self.projection = self._projection(hidden.scale) if node.has(PROJECTION) else None
        every = np.arange(-(1 << 15), 1 << 15)
        self.sigmoid = fixed_point.logistic(every, _GATE_INTEGER_BITS, _SHORT_BITS)
        self.tanh = fixed_point.tanh(every, _GATE_INTEGER_BITS, _SHORT_BITS)
        self.cell_tanh = fixed_point.tanh(every, _SHORT_BITS + self.cell_exponent, _SHORT_BITS)

    def _projection(self, hidden_scale: np.float32) -> _Line:
        node = self.node
        weights, output = node.value(PROJECTION), node.value(OUTPUT_STATE)
        matrix = node.known(PROJECTION).astype(np.int64)
        bias = -self.hidden_zero * matrix.sum(1)
        if node.has(PROJECTION_BIAS):
            bias = bias + node.known(PROJECTION_BIAS).astype(np.int64)
        ratio = np.float32(weights.scale * hidden_scale) / output.scale
        return _Line(matrix, bias, [quantized_multiplier(float(ratio))])

    def step(self, x_t: str, states: list[str]) -> list[str]:
        """Output and cell after the input's part of the gates, int16 [batch, gates * units]."""
        low, node, (h, c) = self.low, self.node, states
        recurrent = rescale(node, self.recurrent.sums(node, h), self.recurrent.multipliers, DType.INT32)
        sums = self._narrow(low.add(low.cast(x_t, DType.INT32), recurrent))
        parts = {
            gate: low.slice_axis(sums, 1, place * self.units, self.units)
            for place, gate in enumerate(self.gates)
        }
        new = looked_up(node, self.tanh, parts[_CELL_GATE])
        early = [gate for gate in self.gates if gate < _CELL_GATE]
        open_gates = looked_up(
            node, self.sigmoid, low.concat([self._peephole(gate, parts[gate], c) for gate in early], 1)
        )
        forget = low.slice_axis(open_gates, 1, (len(early) - 1) * self.units, self.units)
        if len(early) == 1:
            largest = low.constant(np.full((1, 1), (1 << _SHORT_BITS) - 1), DType.INT32)
            written = self._narrow(low.sub(largest, low.cast(forget, DType.INT32)))
        else:
            written = low.slice_axis(open_gates, 1, 0, self.units)
        kept = self._halved(self._product(forget, c), _SHORT_BITS)
        added = self._halved(self._product(written, new), 2 * _SHORT_BITS + self.cell_exponent)
        c = self._clipped(self._narrow(low.add(kept, added)), "CellClip", CELL_STATE)
        seen = looked_up(node, self.sigmoid, self._peephole(3, parts[3], c))
        product = self._product(seen, looked_up(node, self.cell_tanh, c))
        y = rescale(node, product, [self.hidden], DType.INT8, 0, self.hidden_zero)
        if self.projection is not None:
            zero = node.value(OUTPUT_STATE).zero_point
            wide = self.projection.sums(node, y)
            y = rescale(node, wide, self.projection.multipliers, DType.INT8, 0, zero)
            y = self._clipped(y, "ProjClip", OUTPUT_STATE)
        return [y, c]

    def _peephole(self, gate: int, sums: str, cell: str) -> str:
        """A gate's sums with the cell's part."""
        index = PEEPHOLE + (0, 1, -1, 2)[gate]
        if not self.node.has(index):
            return sums
        low, weights = self.low, self.node.value(index)
        line = low.constant(self.node.known(index).reshape(1, -1), DType.INT16)
        scale = np.float32(2.0**self.cell_exponent * float(weights.scale) / _GATE_SCALE)
        product = rescale(
            self.node, self._product(line, cell), [quantized_multiplier(float(scale))], DType.INT32
        )
        return self._narrow(low.add(low.cast(sums, DType.INT32), product))

    def _product(self, a: str, b: str) -> str:
        """int32 of two int16 tensors."""
        low = self.low
        return low.op("MUL", *low.aligned(a, b), low.constant([0], DType.INT8), dtype=DType.INT32)

    def _narrow(self, x: str) -> str:
        """Returns int32 as int16, saturated."""
        return rescaled(self.low, x, [ONE], DType.INT16)

    def _halved(self, x: str, exponent: int) -> str:
        """x / 2^exponent in int32, ties away from zero: twice x, so that the double rounding moves nothing else."""
        low = self.low
        return rescaled(low, low.add(x, x), [(1 << 30, 31 + exponent)], DType.INT32, rounding="DOUBLE_ROUND")

    def _clipped(self, x: str, option: str, state: int) -> str:
        """Clips between a limit of reals and its negative, as integers without a zero point; 0 limits nothing."""
        real, dtype = float(self.node.option(option, 0.0)), self.low.dtype(x)
        if real <= 0:
            return x
        limit = int(min(np.float32(real) / self.node.value(state).scale, np.float32(dtype.max)))
        return self.low.clamp(x, -limit, limit) if limit > 0 else x
