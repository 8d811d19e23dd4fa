"""int16 convolutions and matrix products as int8 ones of the inputs' byte planes (clauses 2.3.3 to 2.3.8, 2.3.11).

x = 256 * high + low, where high is the signed upper byte and low the unsigned lower one. The array multiplies signed
bytes minus a zero point, so the low plane is stored as low - 128 and its zero point is -128; padding then counts as
zero, as it must. The planes' int32 sums make the int48 result high * 256 + low, which the vector unit adds up on the
way out of the array. MUL with an int48 result, and ADD of int48 and int32, exist inside the compiler only.
"""

import itertools

import numpy as np

from tosaic.compiler.cut.rules import CHANNELS
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting

LOW_ZERO_POINT = -128
_ORIGINS = (0, LOW_ZERO_POINT)
"""Zero points of the planes, the high one first."""
_LIMIT = 1 << 31


def split_planes(new: Rewriting, name: str) -> tuple[str, str]:
    """(high, low - 128) of an int16 tensor, as int8 tensors; made once per tensor."""
    if name not in new.planes:
        shape = new.shape(name)
        ones = (1,) * len(shape)
        shift, sign = (
            new.constant(np.full(ones, 8), DType.INT16),
            new.constant(np.full(ones, 128), DType.INT16),
        )
        high = new.add("ARITHMETIC_RIGHT_SHIFT", [name, shift], shape, DType.INT16, round=False)
        low = new.add("BITWISE_XOR", [name, sign], shape, DType.INT16)
        new.planes[name] = (
            new.add("CAST", [high], shape, DType.INT8),
            new.add("CAST", [low], shape, DType.INT8),
        )
    return new.planes[name]


def combined(new: Rewriting, high: str, low: str, output: str | None = None) -> str:
    """The int48 tensor high * 256 + low."""
    return new.add("ADD", [_scaled(new, high, 256), low], new.shape(high), DType.INT48, output)


def _scaled(new: Rewriting, name: str, factor: int) -> str:
    shape = new.shape(name)
    operand = new.constant(np.full((1,) * len(shape), factor), DType.INT32)
    return new.add("MUL", [name, operand, new.zeros(1, DType.INT8)], shape, DType.INT48)


def added(new: Rewriting, parts: list[str], output: str) -> None:
    """The sum of int48 tensors; the later ones may be broadcast."""
    total = parts[0]
    for index, part in enumerate(parts[1:]):
        last = index == len(parts) - 2
        total = new.add("ADD", [total, part], new.shape(total), DType.INT48, output if last else None)


def _zero_points(new: Rewriting, *values: int) -> list[str]:
    return [new.constant(np.array([value]), DType.INT8) for value in values]


def convolution_of_planes(new: Rewriting) -> bool:
    """An int16 convolution with a constant bias; False when its sums cannot be split into int32 ones."""
    graph, operator = new.graph, new.operator
    data, weight, bias, _, weight_zp = operator.inputs
    offset = graph.const(bias)
    assert offset is not None
    magnitudes = _magnitudes(new, weight, weight_zp)
    depthwise = operator.op == "DEPTHWISE_CONV2D"
    slices = [(0, magnitudes.size)] if depthwise else _channel_slices(magnitudes)
    if slices is None:
        return False
    if depthwise:
        largest = magnitudes.sum(axis=(0, 1)).reshape(-1)
    else:
        first, count = slices[0]
        largest = magnitudes[..., first : first + count].sum(axis=tuple(range(1, magnitudes.ndim)))
    if 255 * int(largest.max()) >= _LIMIT:
        return False
    offset = offset.astype(np.int64).reshape(-1)
    high_bias, low_bias = offset >> 8, offset & 255
    inside = bool(
        (abs(high_bias) + 128 * largest < _LIMIT).all() and (low_bias + 255 * largest < _LIMIT).all()
    )
    none = np.zeros_like(offset)
    planes = split_planes(new, data)
    sums = []
    for number, (first, count) in enumerate(slices):
        cut = new.part_of_sum({} if depthwise else {CHANNELS: (first, first + count)})
        taken = [new.box(plane, cut.operands[0]) for plane in planes]
        part = new.box(weight, cut.operands[1])
        biases = (high_bias, low_bias) if inside and number == 0 else (none, none)
        high, low = [
            new.add(
                operator.op,
                [
                    plane,
                    part,
                    new.constant(value, DType.INT32),
                    *_zero_points(new, zero_point),
                    weight_zp,
                ],
                new.shape(operator.outputs[0]),
                DType.INT32,
                **{**operator.attributes, "acc_type": DType.INT32},
            )
            for plane, value, zero_point in zip(taken, biases, _ORIGINS, strict=True)
        ]
        whole = inside and len(slices) == 1
        sums.append(combined(new, high, low, operator.outputs[0] if whole else None))
    if not inside:
        rank = len(new.shape(operator.outputs[0]))
        sums.append(new.constant(offset.reshape((1,) * (rank - 1) + (-1,)), DType.INT48))
    if len(sums) > 1:
        added(new, sums, operator.outputs[0])
    return True


def _magnitudes(new: Rewriting, weight: str, zero_point: str) -> np.ndarray:
    """The largest |weight - weight_zp| that each weight can have."""
    kernel, origin = new.graph.const(weight), new.graph.const(zero_point)
    if kernel is None or origin is None:
        return np.full(new.shape(weight), 255, np.int64)
    return abs(kernel.astype(np.int64) - int(origin.reshape(-1)[0]))


def _channel_slices(magnitudes: np.ndarray) -> list[tuple[int, int]] | None:
    """(first, count) of groups of input channels whose low plane's sums fit int32; None when one channel's do not."""
    per_channel = magnitudes.sum(axis=tuple(range(1, magnitudes.ndim - 1)))  # [OC, IC]
    total, slices, first = np.zeros(magnitudes.shape[0], np.int64), [], 0
    for channel in range(per_channel.shape[1]):
        more = per_channel[:, channel]
        if 255 * (int(more.max()) + 1) >= _LIMIT:
            return None
        if 255 * (int((total + more).max()) + 1) >= _LIMIT:
            slices.append((first, channel - first))
            first, total = channel, np.zeros_like(total)
        total = total + more
    return [*slices, (first, per_channel.shape[1] - first)]


def matrix_product_of_planes(new: Rewriting) -> bool:
    """An int16 MATMUL [N,H,C] x [N,C,W] as four int8 ones (clause 2.3.8)."""
    (left, right, *_), output = new.operator.inputs, new.operator.outputs[0]
    (n, h, c), (_, _, w) = new.shape(left), new.shape(right)
    left_planes, right_planes = split_planes(new, left), split_planes(new, right)
    step = (_LIMIT - 1) // (255 * 255)
    parts = []
    for first in range(0, c, step):
        last = min(first + step, c)
        cut = new.part_of_sum({CHANNELS: (first, last)})
        lefts = [new.box(plane, cut.operands[0]) for plane in left_planes]
        rights = [new.box(plane, cut.operands[1]) for plane in right_planes]
        # In the order high x high, high x low, low x high, low x low.
        high, *middle, low = (
            new.add("MATMUL", [a, b, *_zero_points(new, *origins)], (n, h, w), DType.INT32)
            for (a, b), origins in zip(
                itertools.product(lefts, rights), itertools.product(_ORIGINS, repeat=2), strict=True
            )
        )
        outer = new.add("ADD", [_scaled(new, high, 1 << 16), low], (n, h, w), DType.INT48)
        inner = new.add("ADD", [_scaled(new, part, 256) for part in middle], (n, h, w), DType.INT48)
        parts.append(
            new.add(
                "ADD", [outer, inner], (n, h, w), DType.INT48, output if (first, last) == (0, c) else None
            )
        )
    if len(parts) > 1:
        added(new, parts, output)
    return True
