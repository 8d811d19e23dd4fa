"""Convolutions and matrix products: int8 by int8 to int32, or int16 activations to int48."""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.ir.encoding import evenly_scaled
from tosaic.compiler.quantizer.canonical import channels_of
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, Emission, natural
from tosaic.compiler.quantizer.encoding import Integers, symmetric
from tosaic.compiler.quantizer.feedback import round_with_feedback
from tosaic.compiler.quantizer.functions import is_real
from tosaic.compiler.quantizer.grouped_products import grouped_product
from tosaic.compiler.quantizer.groups import GroupGrid, group_grid, rounded_in_groups, takes_groups
from tosaic.compiler.quantizer.weight_grids import WeightGrid
from tosaic.compiler.quantizer.wide_range import halves, keeps_range
from tosaic.errors import UnsupportedError

_LARGEST_BIAS = {DType.INT32: 2.0**30, DType.INT48: 2.0**45}
_LARGEST_SUM = {DType.INT32: 2.0**31, DType.INT48: 2.0**47}
WEIGHT_MAX = 127
_BYTE = 256.0


@natural("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D")
def convolution(emission: Emission, op: Operator) -> Integers:
    """Weights are int8 with one symmetric scale for each output channel, or one for all where a recurrence loses little
    by it; the bias has the accumulator's scale."""
    low, graph = emission.low, emission.graph
    weight, bias = emission.data(op.inputs[1]), emission.data(op.inputs[2])
    two_bytes = op.outputs[0] in emission.plan.finer.weights
    if weight is not None and bias is not None and keeps_range(emission.plan, op):
        return _in_parts(emission, op, halves(emission, op.inputs[0]), two_bytes)
    source = emission.activation(op.inputs[0])
    accumulator = DType.INT48 if source.dtype is DType.INT16 else DType.INT32
    if bias is None:
        raise UnsupportedError(
            f"{op} (tensor {graph.tensors[op.inputs[2]]}): a bias computed at run time has no integer form; make it a "
            "constant"
        )
    if weight is None:
        return _runtime_weight(emission, op, source, bias, accumulator)
    channels = channels_of(weight, op.op).astype(np.float64)
    if two_bytes:
        return _in_parts(emission, op, [source], two_bytes)
    wide_bias = np.broadcast_to(bias.astype(np.float64), (len(channels),))
    own = emission.plan.weight_grids.get(op.inputs[1])
    groups = _groups(emission, op, channels) if own is None or own.wide else None
    if groups is not None and groups.is_by_channel:
        own = WeightGrid(np.abs(groups.scales[:, 0]), 0)
    elif groups is not None:
        lost = wide_bias + emission.plan.corrections(op, groups.reals - channels)
        return grouped_product(emission, op, source, groups, lost)
    if own is not None and own.wide:
        return _in_bytes(emission, op, source, own)
    grid = own or _symmetric(channels)
    recurs = own is None and _recurs(emission, op) and evenly_scaled(channels)
    if recurs:
        grid = WeightGrid(np.full(len(channels), grid.scales.max()), 0)
    # A channel whose weights are tiny beside its bias: its accumulator must hold the bias.
    least = np.abs(wide_bias) / (source.step * _LARGEST_BIAS[accumulator])
    scales = np.maximum(grid.scales, least)
    lowest, highest = DType.INT8.min - grid.zero_point, DType.INT8.max - grid.zero_point
    covariance = emission.plan.covariances.of(op.outputs[0]) if own is None else None
    if covariance is None:
        integers = np.clip(np.rint(channels / scales[:, None]), lowest, highest)
    else:
        integers = round_with_feedback(channels / scales[:, None], covariance, (-WEIGHT_MAX, WEIGHT_MAX))
    exact_bias = wide_bias
    if not recurs or wide_bias.any():
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


def _recurs(emission: Emission, op: Operator) -> bool:
    """Whether a product of a vector has the weights of others, as the steps of a recurrence do. VECTOR takes its sums
    fastest where they have neither scales by channel nor biases: it need not load any for each tile of channels."""
    graph, weights = emission.graph, emission.graph.tensors[op.inputs[1]]
    if op.op != "CONV2D" or math.prod(emission.shape(op.outputs[0])[:-1]) > 1 or weights.data is None:
        return False
    for other in graph.operators:
        if other.op == op.op and other is not op:
            found = graph.tensors[other.inputs[1]]
            if found.name == weights.name:
                return True
            if (
                found.data is not None
                and found.shape == weights.shape
                and np.array_equal(found.data, weights.data)
            ):
                return True
    return False


def _groups(emission: Emission, op: Operator, channels: np.ndarray) -> GroupGrid | None:
    """The grid of a matrix whose weights have four bits, or are to have them."""
    if not takes_groups(emission.graph, op):
        return None
    plan = emission.plan
    found = group_grid(channels)
    if found is None and plan.group is not None:
        found = rounded_in_groups(channels, plan.group, plan.covariances.of(op.outputs[0]))
    return found


def _in_parts(emission: Emission, op: Operator, sources: list[Integers], two_bytes: bool) -> Integers:
    """The sum in int32 of what each source gives; with two bytes, weights of 16 bits as high and low bytes."""
    weight, bias = emission.data(op.inputs[1]), emission.data(op.inputs[2])
    assert weight is not None and bias is not None
    channels = channels_of(weight, op.op).astype(np.float64)
    accumulator = DType.INT48 if sources[0].dtype is DType.INT16 else DType.INT32
    wide_bias = np.broadcast_to(bias.astype(np.float64), (len(channels),))
    parts = []
    for source in sources:
        least = np.abs(wide_bias) / (source.step * _LARGEST_BIAS[accumulator])
        high = WeightGrid(np.maximum(_symmetric(channels).scales, least), 0)
        first = np.rint(channels / high.scales[:, None])
        bytes_of = [(first, high)]
        if two_bytes:
            rest = WeightGrid(high.scales / _BYTE, 0)
            left = (channels - first * high.scales[:, None]) / rest.scales[:, None]
            bytes_of.append((np.clip(np.rint(left), -128, 127), rest))
        for integers, grid in bytes_of:
            parts.append(_part(emission, op, source, integers, grid, wide_bias))
            wide_bias = np.zeros(len(channels))
    scale = sum(part.reach for part in parts) / 2**HEADROOM_BITS
    terms = [emission.as_int32(part, scale) for part in parts]
    total = terms[0].tensor
    for term in terms[1:]:
        total = emission.emit("ADD", total, term.tensor)
    return Integers(total, DType.INT32, np.array(scale), 0, sum(term.bound for term in terms))


def _in_bytes(emission: Emission, op: Operator, source: Integers, grid: WeightGrid) -> Integers:
    """The sum of a convolution for each byte of wide weights, exact as far as int32 holds it.

    Parts are in units of the weights' own steps, so that they add up whatever a channel's scale is.
    """
    weight, bias = emission.data(op.inputs[1]), emission.data(op.inputs[2])
    assert weight is not None and bias is not None
    channels = channels_of(weight, op.op).astype(np.float64)
    whole = np.rint(channels / grid.scales[:, None])
    own_bias = np.broadcast_to(bias.astype(np.float64), (len(channels),)) / grid.scales
    unit, place = dataclasses.replace(source, encoding=None), 1.0
    parts: list[Integers] = []
    while whole.any() or not parts:
        lowest = (whole + _BYTE / 2) % _BYTE - _BYTE / 2
        bytes_of = WeightGrid(np.full(len(channels), place), 0)
        parts.append(_part(emission, op, unit, lowest, bytes_of, own_bias))
        whole, place, own_bias = (whole - lowest) / _BYTE, place * _BYTE, np.zeros(len(channels))
    step = source.scale.item()
    reach = sum(part.bound * float(part.scale[0]) for part in parts)
    scale = step * 2.0 ** max(0, math.ceil(math.log2(reach / step)) - HEADROOM_BITS)
    terms = [
        emission.as_int32(dataclasses.replace(part, scale=part.scale[0], bounds=None), scale)
        for part in parts
    ]
    total = terms[0].tensor
    for term in terms[1:]:
        total = emission.emit("ADD", total, term.tensor)
    return Integers(total, DType.INT32, scale * grid.scales, 0, sum(term.bound for term in terms))


def _part(
    emission: Emission,
    op: Operator,
    source: Integers,
    integers: np.ndarray,
    grid: WeightGrid,
    bias: np.ndarray,
) -> Integers:
    """The convolution of one source with integer weights [output channel, taps], in its accumulator."""
    low, shape = emission.low, emission.shape(op.inputs[1])
    accumulator = DType.INT48 if source.dtype is DType.INT16 else DType.INT32
    scale = source.scale * grid.scales
    sums = np.rint(bias / scale)
    bounds = np.abs(integers).sum(1) * source.bound + np.abs(sums)
    if bounds.max() >= _LARGEST_SUM[accumulator]:
        raise _too_many(emission, op, accumulator)
    held = (integers.T if op.op == "DEPTHWISE_CONV2D" else integers).reshape(shape)
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
    return Integers(tensor, accumulator, scale, 0, float(bounds.max()), bounds=bounds)


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
