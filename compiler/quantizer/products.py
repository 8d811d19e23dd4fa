"""Convolutions and matrix products: int8 by int8 to int32, or int16 activations to int48."""

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.canonical import channels_of
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, Emission, natural
from tosaic.compiler.quantizer.encoding import Integers, symmetric
from tosaic.compiler.quantizer.functions import is_real
from tosaic.compiler.quantizer.weight_grids import WeightGrid
from tosaic.errors import UnsupportedError

_LARGEST_BIAS = {DType.INT32: 2.0**30, DType.INT48: 2.0**45}
_LARGEST_SUM = {DType.INT32: 2.0**31, DType.INT48: 2.0**47}
WEIGHT_MAX = 127
_BYTE = 256.0


@natural("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def convolution(emission: Emission, op: Operator) -> Integers:
    """Weights are int8 with one symmetric scale for each output channel; the bias has the accumulator's scale."""
    low, graph = emission.low, emission.graph
    source = emission.activation(op.inputs[0])
    weight, bias = emission.data(op.inputs[1]), emission.data(op.inputs[2])
    accumulator = DType.INT48 if source.dtype is DType.INT16 else DType.INT32
    if bias is None:
        raise UnsupportedError(
            f"{op} (tensor {graph.tensors[op.inputs[2]]}): a bias computed at run time has no integer form; make it a "
            "constant"
        )
    if weight is None:
        return _runtime_weight(emission, op, source, bias, accumulator)
    channels = channels_of(weight, op.op).astype(np.float64)
    if op.outputs[0] in emission.plan.finer.weights:
        return _two_bytes(emission, op, source, channels)
    wide_bias = np.broadcast_to(bias.astype(np.float64), (len(channels),))
    grid = emission.plan.weight_grids.get(op.inputs[1]) or _symmetric(channels)
    # A channel whose weights are tiny beside its bias: its accumulator must hold the bias.
    least = np.abs(wide_bias) / (float(source.scale) * _LARGEST_BIAS[accumulator])
    scales = np.maximum(grid.scales, least)
    lowest, highest = DType.INT8.min - grid.zero_point, DType.INT8.max - grid.zero_point
    integers = np.clip(np.rint(channels / scales[:, None]), lowest, highest)
    exact_bias = wide_bias + emission.plan.corrections(op, integers * scales[:, None] - channels)
    sums = np.rint(exact_bias / (source.scale * scales))
    bounds = np.abs(integers).sum(1) * source.bound + np.abs(sums)
    if bounds.max() >= _LARGEST_SUM[accumulator]:
        raise _too_many(emission, op, accumulator)
    held = integers + grid.zero_point
    held = (held.T if op.op == "DEPTHWISE_CONV2D" else held).reshape(weight.shape)
    result = emission.emit(
        op.op,
        source.tensor,
        low.constant(held.astype(np.int8), DType.INT8),
        low.constant(sums.astype(np.int64), accumulator),
        low.constant([source.zero_point], source.dtype),
        low.constant([grid.zero_point], DType.INT8),
        dtype=accumulator,
        **{**op.attributes, "acc_type": accumulator},
    )
    return Integers(result, accumulator, source.scale * scales, 0, float(bounds.max()), bounds=bounds)


def _two_bytes(emission: Emission, op: Operator, source: Integers, channels: np.ndarray) -> Integers:
    """Weights of 16 bits: the sums of their high and of their low bytes, added in int32."""
    low, weight, bias = emission.low, emission.data(op.inputs[1]), emission.data(op.inputs[2])
    assert weight is not None and bias is not None
    accumulator = DType.INT48 if source.dtype is DType.INT16 else DType.INT32
    wide_bias = np.broadcast_to(bias.astype(np.float64), (len(channels),))
    least = np.abs(wide_bias) / (float(source.scale) * _LARGEST_BIAS[accumulator])
    grid = _symmetric(channels)
    high = WeightGrid(np.maximum(grid.scales, least), 0)
    first = np.rint(channels / high.scales[:, None])
    rest = WeightGrid(high.scales / _BYTE, 0)
    second = np.clip(np.rint((channels - first * high.scales[:, None]) / rest.scales[:, None]), -128, 127)
    parts = []
    for integers, part, offset in ((first, high, wide_bias), (second, rest, np.zeros(len(channels)))):
        sums = np.rint(offset / (source.scale * part.scales))
        bounds = np.abs(integers).sum(1) * source.bound + np.abs(sums)
        if bounds.max() >= _LARGEST_SUM[accumulator]:
            raise _too_many(emission, op, accumulator)
        held = (integers.T if op.op == "DEPTHWISE_CONV2D" else integers).reshape(weight.shape)
        tensor = emission.emit(
            op.op,
            source.tensor,
            low.constant(held.astype(np.int8), DType.INT8),
            low.constant(sums.astype(np.int64), accumulator),
            low.constant([source.zero_point], source.dtype),
            low.constant([0], DType.INT8),
            dtype=accumulator,
            **{**op.attributes, "acc_type": accumulator},
        )
        scale = source.scale * part.scales
        parts.append(Integers(tensor, accumulator, scale, 0, float(bounds.max()), bounds=bounds))
    scale = sum(part.reach for part in parts) / 2**HEADROOM_BITS
    terms = [emission.as_int32(part, scale) for part in parts]
    total = emission.emit("ADD", *(term.tensor for term in terms))
    return Integers(total, DType.INT32, np.array(scale), 0, sum(term.bound for term in terms))


def _too_many(emission: Emission, op: Operator, accumulator: DType) -> UnsupportedError:
    return UnsupportedError(
        f"{op} (tensor {emission.graph.tensors[op.outputs[0]]}): its sums may need more than {accumulator.spelling}; "
        "split its input channels"
    )


def _symmetric(channels: np.ndarray) -> WeightGrid:
    """One scale for each output channel, that of its largest weight."""
    largest = np.abs(channels).max(1)
    return WeightGrid(np.where(largest > 0, largest, 1.0) / WEIGHT_MAX, 0)


def _runtime_weight(
    emission: Emission, op: Operator, source: Integers, bias: np.ndarray, accumulator: DType
) -> Integers:
    low = emission.low
    encoding = symmetric(DType.INT8, emission.plan.largest(op.inputs[1]))
    weight = emission.request(op.inputs[1], encoding)
    scale = source.scale * encoding.scale
    shape = emission.shape(op.inputs[1])
    outputs = shape[2] * shape[3] if op.op == "DEPTHWISE_CONV2D" else shape[0]
    sums = np.broadcast_to(np.rint(bias / scale), (outputs,))
    taps = int(np.prod(shape)) // outputs
    result = emission.emit(
        op.op,
        source.tensor,
        weight,
        low.constant(sums.astype(np.int64), accumulator),
        low.constant([source.zero_point], source.dtype),
        low.constant([0], DType.INT8),
        dtype=accumulator,
        **{**op.attributes, "acc_type": accumulator},
    )
    bound = taps * source.bound * 128 + float(np.abs(sums).max())
    return Integers(result, accumulator, np.asarray(scale), 0, bound)


@natural("MATMUL")
def matmul(emission: Emission, op: Operator) -> Integers:
    """Both operands are activations."""
    low = emission.low
    if not all(is_real(emission.graph, name) for name in op.inputs[:2]):
        raise UnsupportedError(f"{op}: one operand is an integer and the result is not; convert it")
    a, b = (emission.activation(name) for name in op.inputs[:2])
    accumulator = DType.INT48 if a.dtype is DType.INT16 else DType.INT32
    depth = emission.shape(op.inputs[0])[2]
    result = emission.emit(
        "MATMUL",
        a.tensor,
        b.tensor,
        low.constant([a.zero_point], a.dtype),
        low.constant([b.zero_point], b.dtype),
        dtype=accumulator,
    )
    return Integers(result, accumulator, a.scale * b.scale, 0, depth * a.bound * b.bound)
