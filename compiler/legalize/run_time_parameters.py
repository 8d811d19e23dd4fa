"""Parameters that are computed at run time (TOSA's EXT-DYNAMIC), by operators whose parameters are constants.

Instructions hold zero points, multipliers and shifts as numbers, so a parameter that is computed at run time becomes
an operand of an operator of its own. Every rewrite is an identity of integers. A zero point that TOSA wants to be zero
for the operand's type is zero here, too. Two operators keep what the vector unit reads from memory: TABLE its table, as
entries of int32, and RESCALE multipliers of int32 and shifts, one per channel.
"""

from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import OPERATORS, DType
from tosaic.compiler.legalize.rewriting import Rewriting

_SPLIT = 16
"""A product of up to 63 bits is kept as its low 48 bits, and as what is above this number of bits."""

_Rewrite = Callable[[Rewriting], None]
_REWRITES: dict[str, _Rewrite] = {}
"""By operator; the functions below register here."""


def _rewrites(*operators: str) -> Callable[[_Rewrite], _Rewrite]:
    """Registers the rewrite of operators."""

    def register(function: _Rewrite) -> _Rewrite:
        _REWRITES.update(dict.fromkeys(operators, function))
        return function

    return register


def take_parameters_as_operands(new: Rewriting) -> bool:
    """Rewrites an operator one of whose parameters is computed at run time; False if none is."""
    operator = new.operator
    if operator.op not in _REWRITES:
        return False
    parameters = {
        operand.name: name
        for operand, name in zip(OPERATORS[operator.op].operands, operator.inputs, strict=True)
        if operand.constant and new.graph.const(name) is None
    }
    if not parameters or _is_read_from_memory(new, parameters):
        return False
    _REWRITES[operator.op](new)
    return True


def _is_read_from_memory(new: Rewriting, parameters: dict[str, str]) -> bool:
    """Whether the vector unit takes the run-time parameters of an operator as they are."""
    operator = new.operator
    if operator.op == "TABLE":
        return new.dtype(operator.inputs[1]) is DType.INT32
    only_scales = operator.op == "RESCALE" and parameters.keys() <= {"multiplier", "shift"}
    return only_scales and operator.attributes["per_channel"] and new.dtype(operator.inputs[1]) is DType.INT32


# --- helpers: all arithmetic is that of int32 and int48 tensors, whatever TOSA allows


def _operand(new: Rewriting, name: str) -> str:
    found = new.graph.operand(new.operator, name)
    assert found is not None
    return found


def _cast(new: Rewriting, name: str, dtype: DType, output: str | None = None) -> str:
    if new.dtype(name) is not dtype:
        return new.op("CAST", name, dtype=dtype, output=output)
    return name if output is None else new.op("IDENTITY", name, dtype=dtype, output=output)


def _number(new: Rewriting, value: int, like: str, dtype: DType = DType.INT32) -> str:
    """A constant that broadcasts over a tensor."""
    return new.constant(np.full((1,) * new.rank(like), value), dtype)


def _along(new: Rewriting, parameter: str, like: str) -> str:
    """A parameter, of one element or one per channel, as int32 that broadcasts over a tensor."""
    lead = new.rank(like) - len(new.shape(parameter))
    shape = (1,) * lead + new.shape(parameter) if new.rank(like) else ()
    return new.reshape(_cast(new, parameter, DType.INT32), shape)


def _binary(new: Rewriting, op: str, a: str, b: str, output: str | None = None, **attributes: bool) -> str:
    """An elementwise operator; its result is int48 if an operand is."""
    dtype = max((new.dtype(a), new.dtype(b)), key=lambda each: each.bits)
    return new.op(op, a, b, dtype=dtype, output=output, **attributes)


def _product(new: Rewriting, a: str, b: str, dtype: DType) -> str:
    return new.op("MUL", a, b, new.zeros(1, DType.INT8), dtype=dtype)


def _shifted(new: Rewriting, value: str, count: str, *, rounded: bool = False) -> str:
    """The low 32 bits of an arithmetic shift to the right."""
    return new.op("ARITHMETIC_RIGHT_SHIFT", value, count, dtype=DType.INT32, round=rounded)


def _clamped_result(new: Rewriting, value: str, low: int, high: int) -> None:
    """The operator's result: an int32 value in the range of the result's type."""
    clamped = new.op("CLAMP", value, dtype=DType.INT32, min_val=low, max_val=high)
    _cast(new, clamped, new.dtype(new.operator.outputs[0]), new.operator.outputs[0])


# --- zero points


def _zero_point(new: Rewriting, name: str) -> tuple[str, str | None]:
    """The constant to leave with the operator, and the tensor to reckon with instead, if there is one."""
    zero_point = _operand(new, name)
    dtype = new.dtype(zero_point)
    if new.graph.const(zero_point) is not None:
        return zero_point, None
    return new.zeros(1, dtype), zero_point if dtype is DType.INT8 else None


@_rewrites("CONV2D", "CONV3D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "MATMUL")
def _sums_of_products(new: Rewriting) -> None:
    """Sums of (x - a) (w - b) are sums of x w, minus b times sums of x, minus sums of a w, plus b times sums of a.
    Each is the same operator, on data of the one value a, or with weights of ones, which are constants."""
    operator, output = new.operator, new.operator.outputs[0]
    matrices = operator.op == "MATMUL"
    data, weight, *bias = operator.inputs[: 2 if matrices else 3]
    data_left, data_zp = _zero_point(new, "A_zp" if matrices else "input_zp")
    weight_left, weight_zp = _zero_point(new, "B_zp" if matrices else "weight_zp")
    window, weight_ones = _smallest(new, data, weight)
    data_zero, weight_zero = new.zeros(1, new.dtype(data)), new.zeros(1, new.dtype(weight))
    dtype = new.dtype(output)
    no_bias = [new.zeros(1, dtype)] * len(bias)

    def sums(operands: list[str], zero_points: list[str], output: str | None = None) -> str:
        return new.op(operator.op, *operands, *zero_points, dtype=dtype, output=output, **operator.attributes)

    terms: list[tuple[str, str, str | None]] = []
    if weight_zp is not None:
        terms.append(("SUB", sums([data, weight_ones, *no_bias], [data_left, weight_zero]), weight_zp))
    if data_zp is not None:
        origin = new.reshape(data_zp, (1,) * new.rank(data))
        same = new.op(
            "BITWISE_OR", new.constant(np.zeros(window, np.int8), DType.INT8), origin, dtype=DType.INT8
        )
        terms.append(("SUB", sums([same, weight, *no_bias], [data_zero, weight_left]), None))
        if weight_zp is not None:
            terms.append(("ADD", sums([same, weight_ones, *no_bias], [data_zero, weight_zero]), weight_zp))
    total = sums([data, weight, *bias], [data_left, weight_left], None if terms else output)
    for number, (op, term, factor) in enumerate(terms):
        if factor is not None:
            term = _product(new, term, _along(new, factor, term), dtype)
        total = _binary(new, op, total, term, output if number == len(terms) - 1 else None)


def _smallest(new: Rewriting, data: str, weight: str) -> tuple[tuple[int, ...], str]:
    """The shape of data of one value, and weights of ones: as few as give sums that broadcast."""
    operator, data_shape, weight_shape = new.operator, new.shape(data), new.shape(weight)
    match operator.op:
        case "MATMUL":
            data_shape, weight_shape = (data_shape[0], 1, data_shape[2]), (*weight_shape[:2], 1)
        case "DEPTHWISE_CONV2D":
            data_shape, kernel = (1, *data_shape[1:]), weight_shape[:2]
        case _:
            data_shape, kernel = (1, *data_shape[1:]), weight_shape[1:-1]
            weight_shape = (1, *weight_shape[1:])
    if "pad" in operator.attributes and not any(operator.attributes["pad"]):
        # Nothing is left out at the edges, so that the sums of one window are those of all.
        steps = operator.attributes["dilation"]
        spans = [(size - 1) * step + 1 for size, step in zip(kernel, steps, strict=True)]
        data_shape = (1, *spans, data_shape[-1])
    return data_shape, new.constant(np.ones(weight_shape, np.int8), new.dtype(weight))


@_rewrites("AVG_POOL2D")
def _average(new: Rewriting) -> None:
    """The average of int16 values from which the zero point is taken already, for padding counts as nothing."""
    operator, output = new.operator, new.operator.outputs[0]
    data, is_int8 = operator.inputs[0], new.dtype(output) is DType.INT8
    if is_int8:
        value = _cast(new, data, DType.INT32)
        centered = _binary(new, "SUB", value, _along(new, _operand(new, "input_zp"), data))
        data = _cast(new, centered, DType.INT16)
    zeros = [new.zeros(1, DType.INT16)] * 2
    average = new.op(
        operator.op,
        data,
        *zeros,
        dtype=DType.INT16,
        output=None if is_int8 else output,
        **operator.attributes,
    )
    if is_int8:
        value = _cast(new, average, DType.INT32)
        moved = _binary(new, "ADD", value, _along(new, _operand(new, "output_zp"), data))
        _clamped_result(new, moved, DType.INT8.min, DType.INT8.max)


@_rewrites("NEGATE")
def _negate(new: Rewriting) -> None:
    data, output = new.operator.inputs[0], new.operator.outputs[0]
    if new.dtype(output) is not DType.INT8:
        zeros = [new.zeros(1, new.dtype(output))] * 2
        new.op("NEGATE", data, *zeros, dtype=new.dtype(output), output=output)
        return
    origins = (_along(new, _operand(new, name), data) for name in ("input1_zp", "output_zp"))
    value = _binary(new, "SUB", _binary(new, "ADD", *origins), _cast(new, data, DType.INT32))
    _clamped_result(new, value, DType.INT8.min, DType.INT8.max)


# --- values


@_rewrites("PAD")
def _pad(new: Rewriting) -> None:
    """Padding with zeros, of elements that a bitwise exclusive or turns to and fro."""
    data, padding, value = new.operator.inputs
    dtype, output = new.dtype(data), new.operator.outputs[0]
    turn = "LOGICAL_XOR" if dtype is DType.BOOL else "BITWISE_XOR"
    mask = new.reshape(value, (1,) * new.rank(data))
    turned = new.op(turn, data, mask, dtype=dtype)
    padded = new.op("PAD", turned, padding, new.zeros(1, dtype), dtype=dtype)
    new.op(turn, padded, mask, dtype=dtype, output=output)


@_rewrites("TABLE")
def _table(new: Rewriting) -> None:
    """The table's entries as the vector unit reads them: an int32 with the value, and the next one of an int16 table
    in its high half."""
    data, table = new.operator.inputs
    count, entries = new.shape(table)[0], _cast(new, table, DType.INT32)
    if new.dtype(data) is not DType.INT8:
        first, following = (new.slice(entries, (start,), (count - 1,)) for start in (0, 1))
        low = _binary(new, "BITWISE_AND", first, _number(new, 0xFFFF, first))
        high = _binary(new, "LOGICAL_LEFT_SHIFT", following, _number(new, 16, following))
        entries = _binary(new, "BITWISE_OR", low, high)
    output = new.operator.outputs[0]
    new.op("TABLE", data, entries, dtype=new.dtype(output), output=output)


# --- scales


@_rewrites("MUL")
def _multiply(new: Rewriting) -> None:
    (a, b, shift), output = new.operator.inputs, new.operator.outputs[0]
    if new.dtype(a) is DType.INT32:
        _cast(new, _scaled(new, a, b, _along(new, shift, output)), DType.INT32, output)
    else:
        new.op("MUL", a, b, new.zeros(1, DType.INT8), dtype=DType.INT32, output=output)


@_rewrites("RESCALE")
def _rescale(new: Rewriting) -> None:
    """Zero points first: what is left is rewritten again where its multiplier or shift is computed at run time."""
    known = (new.graph.const(_operand(new, name)) is not None for name in ("input_zp", "output_zp"))
    if all(known):
        _scales_per_channel(new)
    else:
        _zero_points_apart(new)


def _zero_points_apart(new: Rewriting) -> None:
    operator, attributes = new.operator, new.operator.attributes
    value, multiplier, shift, _, _ = operator.inputs
    output = operator.outputs[0]
    source, target = new.dtype(value), new.dtype(output)
    origins = {}
    for name, is_unsigned in (
        ("input_zp", attributes["input_unsigned"]),
        ("output_zp", attributes["output_unsigned"]),
    ):
        zero_point = _operand(new, name)
        dtype = new.dtype(zero_point)
        if dtype is DType.INT8 or is_unsigned:
            origins[name] = _along(new, zero_point, value)
            if is_unsigned:
                origins[name] = _low_bits(new, origins[name], dtype)
    if "input_zp" in origins:
        value = _cast(new, value, DType.INT32)
        if attributes["input_unsigned"]:
            value = _low_bits(new, value, source)
        value = _binary(new, "SUB", value, origins["input_zp"])
    zeros = new.zeros(1, new.dtype(value)), new.zeros(1, DType.INT32)
    how = {**attributes, "input_unsigned": False, "output_unsigned": False}
    scaled = new.op("RESCALE", value, multiplier, shift, *zeros, dtype=DType.INT32, **how)
    if "output_zp" in origins:
        scaled = _binary(new, "ADD", scaled, origins["output_zp"])
    if attributes["output_unsigned"]:
        _clamped_result(new, scaled, 0, (1 << target.bits) - 1)
    else:
        _clamped_result(new, scaled, target.min, target.max)


def _scales_per_channel(new: Rewriting) -> None:
    """A multiplier of int32 and a shift for each channel, in memory."""
    operator, output = new.operator, new.operator.outputs[0]
    data, multiplier, shift, *zero_points = operator.inputs
    shape = new.shape(data) or (1,)
    scales = [
        _cast(
            new,
            _binary(new, "BITWISE_OR", _cast(new, name, DType.INT32), new.zeros(shape[-1], DType.INT32)),
            dtype,
        )
        for name, dtype in ((multiplier, DType.INT32), (shift, DType.INT8))
    ]
    how = {**operator.attributes, "per_channel": True}
    dtype, whole = new.dtype(output), bool(new.shape(data))
    scaled = new.op(
        "RESCALE",
        new.reshape(data, shape),
        *scales,
        *zero_points,
        dtype=dtype,
        output=output if whole else None,
        **how,
    )
    if not whole:
        new.reshape(scaled, (), output)


def _low_bits(new: Rewriting, value: str, dtype: DType) -> str:
    """The value that an element of an unsigned type has."""
    return _binary(new, "BITWISE_AND", value, _number(new, (1 << dtype.bits) - 1, value))


def _scaled(new: Rewriting, value: str, multiplier: str, shift: str) -> str:
    """value * multiplier / 2^shift, rounded, int32. The product may have 63 bits, and the vector unit keeps 48: a shift
    below `_SPLIT` acts on the low ones, for then those above are copies of the sign, and any other on the high ones."""
    split, wide = _number(new, _SPLIT, value), DType.INT48
    low = _binary(new, "BITWISE_AND", value, _number(new, (1 << _SPLIT) - 1, value))
    low = _cast(new, low, DType.INT32)
    high = _shifted(new, value, split)
    carried = _shifted(new, _product(new, low, multiplier, wide), split)
    above = _binary(new, "ADD", _product(new, high, multiplier, wide), carried)
    below = _product(new, value, multiplier, wide)
    # What a shift by `_SPLIT` rounds by is not in `above`.
    last = _binary(
        new, "BITWISE_AND", _shifted(new, below, _number(new, _SPLIT - 1, value)), _number(new, 1, value)
    )
    at_split = _cast(new, new.op("EQUAL", shift, _number(new, _SPLIT, shift), dtype=DType.BOOL), DType.INT32)
    far = _shifted(
        new,
        above,
        _binary(
            new,
            "SUB",
            _binary(new, "MAXIMUM", shift, _number(new, _SPLIT, shift)),
            _number(new, _SPLIT, shift),
        ),
        rounded=True,
    )
    far = _binary(new, "ADD", far, _product(new, last, at_split, DType.INT32))
    near = _shifted(new, below, _binary(new, "MINIMUM", shift, _number(new, _SPLIT - 1, shift)), rounded=True)
    is_far = new.op("GREATER", shift, _number(new, _SPLIT - 1, shift), dtype=DType.BOOL)
    return new.op("SELECT", is_far, far, near, dtype=DType.INT32)
