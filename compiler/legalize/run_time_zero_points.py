"""Zero points that are computed at run time (see `run_time_parameters.py`)."""

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.run_time_arithmetic import (
    along,
    binary,
    cast,
    clamped_result,
    operand,
    product,
)


def zero_point(new: Rewriting, name: str) -> tuple[str, str | None]:
    """The constant to leave with the operator, and the tensor to reckon with instead, if there is one."""
    zero_point = operand(new, name)
    dtype = new.dtype(zero_point)
    if new.graph.const(zero_point) is not None:
        return zero_point, None
    return new.zeros(1, dtype), zero_point if dtype is DType.INT8 else None


def sums_of_products(new: Rewriting) -> None:
    """Sums of (x - a) (w - b) are sums of x w, minus b times sums of x, minus sums of a w, plus b times sums of a.
    Each is the same operator, on data of the one value a, or with weights of ones, which are constants."""
    operator, output = new.operator, new.operator.outputs[0]
    matrices = operator.op == "MATMUL"
    data, weight, *bias = operator.inputs[: 2 if matrices else 3]
    data_left, data_zp = zero_point(new, "A_zp" if matrices else "input_zp")
    weight_left, weight_zp = zero_point(new, "B_zp" if matrices else "weight_zp")
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
            term = product(new, term, along(new, factor, term), dtype)
        total = binary(new, op, total, term, output if number == len(terms) - 1 else None)


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


def average(new: Rewriting) -> None:
    """The average of int16 values from which the zero point is taken already, for padding counts as nothing."""
    operator, output = new.operator, new.operator.outputs[0]
    data, is_int8 = operator.inputs[0], new.dtype(output) is DType.INT8
    if is_int8:
        value = cast(new, data, DType.INT32)
        centered = binary(new, "SUB", value, along(new, operand(new, "input_zp"), data))
        data = cast(new, centered, DType.INT16)
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
        value = cast(new, average, DType.INT32)
        moved = binary(new, "ADD", value, along(new, operand(new, "output_zp"), data))
        clamped_result(new, moved, DType.INT8.min, DType.INT8.max)


def negate(new: Rewriting) -> None:
    data, output = new.operator.inputs[0], new.operator.outputs[0]
    if new.dtype(output) is not DType.INT8:
        zeros = [new.zeros(1, new.dtype(output))] * 2
        new.op("NEGATE", data, *zeros, dtype=new.dtype(output), output=output)
        return
    origins = (along(new, operand(new, name), data) for name in ("input1_zp", "output_zp"))
    value = binary(new, "SUB", binary(new, "ADD", *origins), cast(new, data, DType.INT32))
    clamped_result(new, value, DType.INT8.min, DType.INT8.max)
