"""Elementwise operators, comparisons, selections and reductions in int32."""

import dataclasses
import math

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, NATURAL, PLAIN, Emission, natural
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.errors import UnsupportedError

_PRODUCT_BITS = 30
_SLOPE_BITS = 14
"""Bits of slopes in int16: x of 16 bits times one, and the sum of two such products, fit int32."""
_FEW_STEPS = 4.0
"""Summands of fewer steps on the average are lost when they are rounded."""
_BEYOND = 2.0**30
_MORE_SLOPE_BITS = 14
"""Where the slopes are a model's own: a result of 128 steps is then no hundredth of a step off."""
_MOST_SHIFT = 62
_STEEP = 8.0
"""Steeper slopes could bring int32 beyond its range."""
_BENDING = ("GREATER", "GREATER_EQUAL", "MUL", "SELECT")
_NEARLY = 1.01
"""A bound may move by a hundredth: two calibrations of one network differ by as much in deep layers."""
_ROOM, _TIGHT = 1.25, 2.0
"""Factors hold 1.25 times what was seen; a headroom of less than 2 more is not worth two operators."""
_WIDE_RATIO = 2.0**9
"""A range this many times its least number leaves that one fewer than 6 of 16 bits, a noise of 46 dB."""
_LARGEST_FACTOR = 2.0**29
"""A conversion of more headroom than 2 bits saturates."""


def aligned(emission: Emission, names: list[str]) -> tuple[list[str], float, float]:
    """int32 tensors of one scale; the scale, and the sum of their bounds. Constants take part."""
    found = {name: emission.settled(name) for name in names if emission.data(name) is None}
    data = {name: emission.data(name) for name in names}
    sizes = [w.reach for w in found.values()]
    # Infinite bounds are as large as int32 needs.
    sizes += [
        float(np.abs(value).max(initial=0, where=np.isfinite(value)))
        for value in data.values()
        if value is not None
    ]
    scales = {w.step for w in found.values() if w.uniform and w.dtype is DType.INT32}
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
            integers = np.clip(np.rint(value.astype(np.float64) / scale), -_BEYOND, _BEYOND)
            tensors.append(emission.low.constant(integers.astype(np.int64), DType.INT32))
            bound += float(np.abs(integers).max())
        else:
            part = found[name]
            exact = part.dtype is DType.INT32 and part.uniform and part.step == scale
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
    """Returns the operand as it is: floats do not change, and whole numbers are integers of scale 1."""
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
    """Integers of a model that brings their encoding, as they are."""
    return emission.held(emission.plain(op.inputs[0]), _own_encoding(emission, op))


@PLAIN.of("CUSTOM")
def rounded(emission: Emission, op: Operator) -> str:
    """The integers of a tensor whose encoding the model brings: rounded to it, whatever computes it."""
    return emission.request(op.inputs[0], _own_encoding(emission, op))


def _own_encoding(emission: Emission, op: Operator) -> Encoding:
    encoding = emission.plan.forced.get(op.outputs[0])
    if encoding is None:
        raise UnsupportedError(f"{op}: CUSTOM operators have no meaning in TOSA; replace it in the model")
    return encoding


@natural("ABS", "NEGATE")
def sign(emission: Emission, op: Operator) -> Integers:
    """Computes ABS or a sign in int32, which the largest magnitude fits."""
    source = emission.as_int32(emission.settled(op.inputs[0]))
    if op.op == "ABS":
        return dataclasses.replace(source, tensor=emission.emit("ABS", source.tensor))
    zero = emission.low.constant([0], DType.INT32)
    return dataclasses.replace(source, tensor=emission.emit("NEGATE", source.tensor, zero, zero))


@natural("MUL")
def product(emission: Emission, op: Operator) -> Integers:
    """Multiplies by a positive constant for all or each channel, which changes scales only."""
    a, b = op.inputs[:2]
    if emission.data(a) is not None:
        a, b = b, a
    value = emission.data(b)
    if value is None:
        far = any(_spans_decades(emission, name) for name in (a, b))
        return _product(emission, op, _factor(emission, a, far), _factor(emission, b, far))
    shape = emission.shape(op.outputs[0])
    line = value.reshape(-1).astype(np.float64)
    along_last = value.size == 1 or (value.shape[-1] == value.size and value.size == shape[-1])
    if not along_last or emission.shape(a) != shape or not line.any():
        largest = float(np.abs(value).max()) or 1.0
        constant = Encoding(DType.INT16, largest / DType.INT16.max)
        factor = emission.held(emission.low.constant(constant.quantize(value), DType.INT16), constant)
        return _product(emission, op, _factor(emission, a), factor)
    if line.size > 1 and np.all(line > 0):
        found = _sloped_by_channel(emission, op, a, line)
        if found is not None:
            return found
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
    """Drops the upper bound if no result was seen above the least one of the channels: there the reader
    saturates.

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


def _spans_decades(emission: Emission, name: str) -> bool:
    """Whether a factor is a positive number, such as a sum of squares or one over it, whose least values 16 bits
    hardly tell apart. What was not seen, but follows from extremes of a model's own pairs, says nothing of that."""
    low, high = emission.plan.statistics.range_seen(name)
    return not emission.plan.as_onnx and 0 < low * _WIDE_RATIO < high


def _factor(emission: Emission, name: str, far: bool = False) -> Integers:
    """An operand of a product, without headroom: what no calibration sample came near to is cut off. `far`: it stays in
    int32, since small products count as much as large ones."""
    found = emission.within_bounds(emission.wide(name))
    reach, room = found.reach, _ROOM * max(emission.plan.largest(name), 1e-30)
    if reach <= _TIGHT * room:
        return found
    if not far:
        return emission.activation(name, DType.INT16)
    found = emission.as_int32(found, room / 2**HEADROOM_BITS)
    return dataclasses.replace(found, bound=min(found.bound, _LARGEST_FACTOR))


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
    """Sums in int32, with room for all summands; in two halves where the least sum would be made of rounded
    off ones.
    """
    axis = op.attributes["axis"]
    shape = emission.shape(op.inputs[0])
    source = emission.settled(op.inputs[0])
    if axis == len(shape) - 1:
        source = emission.as_uniform(source)
    first = _first_part(emission, op, source)
    if first > 1:
        split = (*shape[:axis], shape[axis] // first, first, *shape[axis + 1 :])
        parts = dataclasses.replace(source, tensor=emission.low.reshape(source.tensor, split))
        source, shape = _summed(emission, parts, first, axis + 1), (*split[: axis + 1], *split[axis + 2 :])
        source = dataclasses.replace(source, tensor=emission.low.reshape(source.tensor, shape))
    found = _summed(emission, source, shape[axis], axis)
    last = axis == len(shape) - 1
    return dataclasses.replace(found, bounds=None if last else found.bounds)


def _summed(emission: Emission, source: Integers, count: int, axis: int) -> Integers:
    source = emission.as_summands(source, count)
    tensor = emission.emit("REDUCE_SUM", source.tensor, axis=axis)
    bounds = None if source.bounds is None else source.bounds * count
    return dataclasses.replace(source, tensor=tensor, bound=source.bound * count, bounds=bounds)


def _first_part(emission: Emission, op: Operator, source: Integers) -> int:
    """How many neighbours to add up first, so that fewer bits of each are rounded off: all samples have positive sums,
    and those of small ones would otherwise be made of what is less than a step."""
    count = emission.shape(op.inputs[0])[op.attributes["axis"]]
    step = source.reach * count / 2.0**_PRODUCT_BITS
    if not source.uniform or step <= source.step:
        return 1
    low, _ = emission.plan.statistics.range_seen(op.outputs[0])
    if not 0 < low < _FEW_STEPS * count * step:
        return 1
    parts = [size for size in range(2, count) if count % size == 0]
    return min(parts, key=lambda size: abs(size - math.sqrt(count)), default=1)


@natural("REDUCE_MAX", "REDUCE_MIN")
def reduce_extreme(emission: Emission, op: Operator) -> Integers:
    """Finds the extreme in whatever integers the operand has."""
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
    slopes = _slopes_below_zero(emission, op)
    if slopes is not None:
        return _sloped(emission, op.outputs[0], *slopes)
    tensors, scale, bound = aligned(emission, op.inputs[1:])
    condition = emission.plain(op.inputs[0])
    return Integers(emission.emit("SELECT", condition, *tensors), DType.INT32, np.array(scale), 0, bound)


def _is_zero(emission: Emission, name: str) -> bool:
    value = emission.data(name)
    return value is not None and not value.any()


def _slopes_below_zero(emission: Emission, op: Operator) -> tuple[str, np.ndarray] | None:
    """(x, slopes) where an operator selects x times the slopes for what is below zero, and x for what is above."""
    producers = emission.plan.producers
    condition = producers.get(op.inputs[0])
    if condition is None or condition.op not in ("GREATER", "GREATER_EQUAL"):
        return None
    a, b = condition.inputs
    x, zero, below, above = (b, a, *op.inputs[1:]) if _is_zero(emission, a) else (a, b, *op.inputs[:0:-1])
    product = producers.get(below)
    if above != x or product is None or product.op != "MUL" or x not in product.inputs[:2]:
        return None
    slopes = emission.data(product.inputs[1 if product.inputs[0] == x else 0])
    if not _is_zero(emission, zero) or slopes is None or not np.all(np.isfinite(slopes)):
        return None
    return (x, slopes) if emission.shape(x) == emission.shape(op.outputs[0]) else None


def _sloped(emission: Emission, result: str, x: str, slopes: np.ndarray) -> Integers:
    """x + (slopes - 1) * min(x, 0): few micro-operations, which join the layer that computes x.

    The choice of two int32 tensors takes four more.
    """
    if _is_free(emission, x, slopes):
        plan = emission.plan
        if not plan.held(result):
            return _sloped_sums(emission, emission.natural(x), slopes)
        return _sloped_to(
            emission, emission.natural(x), slopes, plan.encoding(result), plan.statistics.range_seen(x)[0]
        )
    return _sloped_from_memory(emission, x, slopes)


def _sloped_by_channel(emission: Emission, op: Operator, name: str, factors: np.ndarray) -> Integers | None:
    """The same times positive factors of the channels, which go into x: a layer scales by channel once."""
    producer = emission.plan.producers.get(name)
    if producer is None or producer.op != "SELECT" or emission.plan.held(name):
        return None
    found = _slopes_below_zero(emission, producer)
    if found is None or not _is_free(emission, *found) or emission.plan.readers[name] != set(op.outputs):
        return None
    source = emission.natural(found[0])
    if source.bounded or source.dtype is not DType.INT32:
        return None
    return _sloped_sums(emission, dataclasses.replace(source, scale=source.scale * factors), found[1])


def bent_line(emission: Emission, op: Operator) -> Integers | None:
    """A line with another slope below zero, from the sums themselves: a table's 16 bits are coarser."""
    found = _slopes_below_zero(emission, op) if op.op == "SELECT" else None
    if found is None or float(np.abs(found[1] - 1.0).max()) > _STEEP:
        return None
    return _sloped_sums(emission, emission.settled(found[0]), found[1])


def _is_free(emission: Emission, x: str, slopes: np.ndarray) -> bool:
    """Whether x is computed only to be bent, so that it need not be in memory, and int32 holds the results."""
    plan = emission.plan
    maker = plan.producers.get(x)
    if maker is None or maker.op not in NATURAL or plan.functions.is_table(x):
        return False
    bending = {name for name in plan.readers[x] if plan.producers[name].op in _BENDING}
    return not plan.held(x) and plan.readers[x] == bending and float(np.abs(slopes - 1.0).max()) <= _STEEP


def _sloped_sums(emission: Emission, x: Integers, slopes: np.ndarray) -> Integers:
    """Multiplies by the slopes in int32 all the way."""
    source = emission.as_int32(emission.as_uniform(x))
    change, bits = _bits(slopes)
    if emission.plan.as_onnx:
        bits += _MORE_SLOPE_BITS
    bend = _bend(emission, source.tensor, np.rint(change * 2.0**bits), bits)
    tensor = emission.emit("ADD", source.tensor, bend)
    return Integers(tensor, DType.INT32, source.scale, 0, source.bound * (_STEEP + 1.0) + 1)


def _sloped_to(
    emission: Emission, x: Integers, slopes: np.ndarray, wanted: Encoding, lowest: float
) -> Integers:
    """Multiplies by the slopes in the steps that the result is wanted in. What is added to x below 0 needs no
    finer steps; factors have a byte where that moves no result by more than a step. `lowest` is the least x
    that was seen.
    """
    source = emission.as_int32(emission.as_uniform(x))
    change, ratio = slopes.astype(np.float64) - 1.0, source.step / wanted.scale
    most = float(np.abs(change).max()) or 1.0
    exact = -lowest / wanted.scale * most <= 2 * DType.INT8.max
    largest = (DType.INT8 if exact else DType.INT16).max
    bits = min(math.floor(math.log2(largest / (most * ratio))), _MOST_SHIFT)
    if bits < 0:
        return _sloped_sums(emission, x, slopes)
    bend = _bend(emission, source.tensor, np.rint(change * ratio * 2.0**bits), bits)
    straight = emission.as_int32(source, wanted.scale)
    tensor = emission.emit("ADD", straight.tensor, bend)
    return Integers(tensor, DType.INT32, np.array(wanted.scale), 0, straight.bound * (_STEEP + 1.0) + 1)


def _bend(emission: Emission, tensor: str, line: np.ndarray, bits: int) -> str:
    """min(x, 0) * line * 2^-bits: of a line with one sign what has the other one is cut off, a bound of the product."""
    low = emission.low
    constant = low.constant(line.astype(np.int64), DType.INT32)
    shift, zero = low.constant([bits], DType.INT8), emission.line(np.zeros(1), tensor)
    if line.max() <= 0:
        return emission.emit("MAXIMUM", emission.emit("MUL", tensor, constant, shift), zero)
    if line.min() >= 0:
        return emission.emit("MINIMUM", emission.emit("MUL", tensor, constant, shift), zero)
    return emission.emit("MUL", emission.emit("MINIMUM", tensor, zero), constant, shift)


def _bits(slopes: np.ndarray) -> tuple[np.ndarray, int]:
    """What the slopes change, and the bits behind the point that int16 has for it."""
    change = slopes.astype(np.float64) - 1.0
    return change, _SLOPE_BITS - math.ceil(math.log2(max(1.0, float(np.abs(change).max()))))


def _sloped_from_memory(emission: Emission, x: str, slopes: np.ndarray) -> Integers:
    """Where x is in memory for others anyway: of int16."""
    change, bits = _bits(slopes)
    source = emission.wide(x)
    if source.dtype is not DType.INT16 or not source.uniform or source.bounded:
        source = emission.activation(x, DType.INT16)
    low = emission.low
    below = emission.emit("CLAMP", source.tensor, min_val=DType.INT16.min, max_val=0, nan_mode="PROPAGATE")
    line = low.constant(np.rint(change * 2.0**bits).astype(np.int64), DType.INT16)
    bend = emission.emit("MUL", below, line, low.constant([0], DType.INT8), dtype=DType.INT32)
    straight = emission.as_int32(source, source.step * 2.0**-bits)
    tensor = emission.emit("ADD", straight.tensor, bend)
    return Integers(tensor, DType.INT32, straight.scale, 0, 2.0 ** (_SLOPE_BITS + 1) * source.bound)


@PLAIN.of("CAST")
def to_integer(emission: Emission, op: Operator) -> str:
    """A real as a whole number: rounded, ties upwards."""
    wanted = emission.graph.tensors[op.outputs[0]].dtype
    if wanted is DType.BOOL:
        source = emission.as_int32(emission.settled(op.inputs[0]))
        return emission.emit("CAST", source.tensor, dtype=DType.BOOL)
    return emission.request(op.inputs[0], Encoding(wanted, 1.0))


@PLAIN.of("ARGMAX")
def argmax(emission: Emission, op: Operator) -> str:
    """Finds the largest element in int16, so that close elements stay apart."""
    source = emission.activation(op.inputs[0], DType.INT16)
    return emission.emit("ARGMAX", source.tensor, axis=op.attributes["axis"])
