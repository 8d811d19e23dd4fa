"""Elementwise operators, comparisons, selections and reductions in int32."""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, PLAIN, Emission, natural
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.errors import UnsupportedError

_PRODUCT_BITS = 30
_NEARLY = 1.01
"""A bound may move by a hundredth: two calibrations of one network differ by as much in deep layers."""
_ROOM, _TIGHT = 1.25, 2.0
"""Factors hold 1.25 times what was seen; a headroom of less than 2 more is not worth two operators."""


def aligned(emission: Emission, names: list[str]) -> tuple[list[str], float, float]:
    """int32 tensors of one scale; the scale, and the sum of their bounds. Constants take part."""
    found = {name: emission.settled(name) for name in names if emission.data(name) is None}
    data = {name: emission.data(name) for name in names}
    sizes = [w.reach for w in found.values()]
    sizes += [float(np.abs(value).max()) for value in data.values() if value is not None]
    scales = {float(w.scale) for w in found.values() if w.uniform and w.dtype is DType.INT32}
    scale = max(sizes) / 2**HEADROOM_BITS or 1.0
    if len(scales) == 1 and all(w.uniform and w.dtype is DType.INT32 for w in found.values()):
        shared = scales.pop()
        # As it is, unless sums would not fit, or a constant would be rounded coarsely.
        coarse = any(value is not None for value in data.values()) and shared > scale * 2**11
        if sum(sizes) / shared < 2**30 and not coarse:
            scale = shared
    tensors, bound = [], 0.0
    for name in names:
        value = data[name]
        if value is not None:
            integers = np.rint(value.astype(np.float64) / scale)
            tensors.append(emission.low.constant(integers.astype(np.int64), DType.INT32))
            bound += float(np.abs(integers).max())
        else:
            part = found[name]
            exact = part.dtype is DType.INT32 and part.uniform and float(part.scale) == scale
            wide = part if exact else emission.as_int32(part, scale)
            tensors.append(wide.tensor)
            bound += wide.bound
    return tensors, scale, bound


@natural("ADD", "SUB", "MAXIMUM", "MINIMUM")
def sum_or_extreme(emission: Emission, op: Operator) -> Integers:
    """Both operands at one scale. Extremes with one constant are bounds."""
    values = [emission.data(name) for name in op.inputs]
    if op.op in ("MAXIMUM", "MINIMUM"):
        for value, other in ((values[0], op.inputs[1]), (values[1], op.inputs[0])):
            if (
                value is not None
                and value.size == 1
                and emission.shape(other) == emission.shape(op.outputs[0])
            ):
                limit = float(value.reshape(-1)[0])
                bounds = (limit, math.inf) if op.op == "MAXIMUM" else (-math.inf, limit)
                return bounded(emission.wide(other), *bounds)
    tensors, scale, bound = aligned(emission, op.inputs)
    return Integers(emission.emit(op.op, *tensors), DType.INT32, np.array(scale), 0, bound)


def bounded(source: Integers, low: float, high: float) -> Integers:
    """Integers with bounds that their reader applies."""
    low = max(low, source.low)
    return dataclasses.replace(
        source, low=min(low, high), high=max(min(high, source.high), min(low, high)), encoding=None
    )


@natural("CLAMP")
def clamp(emission: Emission, op: Operator) -> Integers:
    """Bounds for the reader."""
    low, high = float(op.attributes["min_val"]), float(op.attributes["max_val"])
    source = emission.wide(op.inputs[0])
    # The type's own ends are no bounds.
    return bounded(source, low if low > -1e30 else -math.inf, high if high < 1e30 else math.inf)


@natural("IDENTITY", "CAST")
def same(emission: Emission, op: Operator) -> Integers:
    """Between floats nothing changes; whole numbers are integers of scale 1."""
    source = emission.graph.tensors[op.inputs[0]]
    if source.dtype.is_float:
        return emission.wide(op.inputs[0])
    tensor = emission.plain(op.inputs[0])
    if source.dtype is not DType.INT32:
        tensor = emission.emit("CAST", tensor, dtype=DType.INT32)
    bound = 1 if source.dtype is DType.BOOL else 2.0 ** (source.dtype.bits - 1)
    return Integers(tensor, DType.INT32, np.array(1.0), 0, bound)


@natural("CUSTOM")
def encoded(emission: Emission, op: Operator) -> Integers:
    """A tensor whose encoding the model brings: rounded to it, whatever computes it."""
    encoding = emission.plan.forced.get(op.outputs[0])
    if encoding is None:
        raise UnsupportedError(f"{op}: CUSTOM operators have no meaning in TOSA; replace it in the model")
    return emission.held(emission.request(op.inputs[0], encoding), encoding)


@natural("ABS", "NEGATE")
def sign(emission: Emission, op: Operator) -> Integers:
    """In int32, which the largest magnitude fits."""
    source = emission.as_int32(emission.settled(op.inputs[0]))
    if op.op == "ABS":
        return dataclasses.replace(source, tensor=emission.emit("ABS", source.tensor))
    zero = emission.low.constant([0], DType.INT32)
    return dataclasses.replace(source, tensor=emission.emit("NEGATE", source.tensor, zero, zero))


@natural("MUL")
def product(emission: Emission, op: Operator) -> Integers:
    """By a positive constant for all or each channel: a matter of scales only."""
    a, b = op.inputs[:2]
    if emission.data(a) is not None:
        a, b = b, a
    value = emission.data(b)
    if value is None:
        return _product(emission, op, _factor(emission, a), _factor(emission, b))
    shape = emission.shape(op.outputs[0])
    line = value.reshape(-1).astype(np.float64)
    along_last = value.size == 1 or (value.shape[-1] == value.size and value.size == shape[-1])
    if not along_last or emission.shape(a) != shape or not np.all(np.isfinite(line)) or not line.any():
        largest = float(np.abs(value).max()) or 1.0
        constant = Encoding(DType.INT16, largest / DType.INT16.max)
        factor = emission.held(emission.low.constant(constant.quantize(value), DType.INT16), constant)
        return _product(emission, op, _factor(emission, a), factor)
    source = _saturating(emission, op, emission.wide(a), line)
    if source.bounded and not (source.uniform and line.size == 1 and line[0] > 0):
        if not ({source.low, source.high} <= {0.0, -math.inf, math.inf} and np.all(line > 0)):
            source = emission.within_bounds(source)
    if not np.all(line > 0):
        source = _with_signs(emission, source, line)
    sizes = np.where(line == 0, 1.0, np.abs(line))
    factor_1 = float(sizes[0]) if line.size == 1 else 1.0
    return dataclasses.replace(
        source,
        scale=source.scale * (sizes if line.size > 1 else factor_1),
        low=source.low * factor_1,
        high=source.high * factor_1,
        encoding=None,
    )


def _saturating(emission: Emission, op: Operator, source: Integers, line: np.ndarray) -> Integers:
    """Without an upper bound, if no result was seen above the least one of the channels: there the reader saturates.

    That is so where the result is held as an activation whose encoding ends there; one with room above would let values
    pass that the bound cuts.
    """
    if line.size == 1 or not source.high < math.inf or not np.all(line > 0):
        return source
    result, plan = op.outputs[0], emission.plan
    seen, bound = plan.statistics.range_seen(result)[1], source.high * float(line.min()) * _NEARLY
    if not 0 < seen <= bound or (plan.held(result) and plan.encoding(result).high > bound):
        return source
    return dataclasses.replace(source, high=math.inf, encoding=None)


def _with_signs(emission: Emission, source: Integers, line: np.ndarray) -> Integers:
    wide = emission.as_int32(source)
    signs = emission.line(np.sign(line), wide.tensor)
    return dataclasses.replace(
        wide, tensor=emission.emit("MUL", wide.tensor, signs, emission.low.constant([0], DType.INT8))
    )


def _factor(emission: Emission, name: str) -> Integers:
    """An operand of a product, without headroom: what no calibration sample came near to is cut off."""
    found = emission.within_bounds(emission.wide(name))
    reach, room = found.reach, _ROOM * max(emission.plan.largest(name), 1e-30)
    if reach <= _TIGHT * room:
        return found
    return emission.activation(name, DType.INT16)


def _product(emission: Emission, op: Operator, a: Integers, b: Integers) -> Integers:
    """int16 by int16, or int32 by int32 with the shift that makes the result fit."""
    shift = emission.low.constant([0], DType.INT8)
    if a.dtype is b.dtype is DType.INT16:
        tensor = emission.emit("MUL", a.tensor, b.tensor, shift, dtype=DType.INT32)
        return Integers(tensor, DType.INT32, a.scale * b.scale, 0, a.bound * b.bound)
    a, b = (emission.as_int32(part) for part in (a, b))
    amount = max(0, math.ceil(math.log2(max(a.bound, 1) * max(b.bound, 1))) - _PRODUCT_BITS)
    shift = emission.low.constant([amount], DType.INT8)
    tensor = emission.emit("MUL", a.tensor, b.tensor, shift, dtype=DType.INT32)
    bound = math.ceil(a.bound * b.bound / 2**amount) + 1
    return Integers(tensor, DType.INT32, a.scale * b.scale * 2.0**amount, 0, bound)


@natural("REDUCE_SUM")
def reduce_sum(emission: Emission, op: Operator) -> Integers:
    """In int32, with room for all summands."""
    axis = op.attributes["axis"]
    shape = emission.shape(op.inputs[0])
    source = emission.settled(op.inputs[0])
    if axis == len(shape) - 1:
        source = emission.as_uniform(source)
    source = emission.as_summands(source, shape[axis])
    tensor = emission.emit("REDUCE_SUM", source.tensor, axis=axis)
    bounds = None if source.bounds is None or axis == len(shape) - 1 else source.bounds * shape[axis]
    return dataclasses.replace(source, tensor=tensor, bound=source.bound * shape[axis], bounds=bounds)


@natural("REDUCE_MAX", "REDUCE_MIN")
def reduce_extreme(emission: Emission, op: Operator) -> Integers:
    """In whatever integers the operand has."""
    source = emission.wide(op.inputs[0])
    if source.dtype is DType.INT48:
        source = emission.activation(op.inputs[0], DType.INT16)
    if op.attributes["axis"] == len(emission.shape(op.inputs[0])) - 1:
        source = emission.as_uniform(source)
    tensor = emission.emit(op.op, source.tensor, axis=op.attributes["axis"])
    return dataclasses.replace(source, tensor=tensor, encoding=None)


@natural("SELECT")
def select(emission: Emission, op: Operator) -> Integers:
    """Both choices at one scale."""
    tensors, scale, bound = aligned(emission, op.inputs[1:])
    condition = emission.plain(op.inputs[0])
    return Integers(emission.emit("SELECT", condition, *tensors), DType.INT32, np.array(scale), 0, bound)


def compare(emission: Emission, op: Operator) -> str:
    """Both sides at one scale."""
    tensors, _, _ = aligned(emission, op.inputs)
    return emission.emit(op.op, *tensors)


def to_integer(emission: Emission, op: Operator) -> str:
    """A real as a whole number: rounded, ties upwards."""
    wanted = emission.graph.tensors[op.outputs[0]].dtype
    if wanted is DType.BOOL:
        source = emission.as_int32(emission.settled(op.inputs[0]))
        return emission.emit("CAST", source.tensor, dtype=DType.BOOL)
    return emission.request(op.inputs[0], Encoding(wanted, 1.0))


def argmax(emission: Emission, op: Operator) -> str:
    """Of int16, so that close elements stay apart."""
    source = emission.activation(op.inputs[0], DType.INT16)
    return emission.emit("ARGMAX", source.tensor, axis=op.attributes["axis"])


PLAIN.update(dict.fromkeys(("EQUAL", "GREATER", "GREATER_EQUAL"), compare))
PLAIN.update({"CAST": to_integer, "ARGMAX": argmax})
