"""Pools whose window is too large for the memory or for one instruction, as reductions along one axis and the other;
and pools of a whole image, whose reduction fills VECTOR's slots with partial results where few channels leave most
empty.

Windows end at the image's edge, so that padding counts for nothing (clauses 2.3.2 and 2.3.9).
"""

import numpy as np

from tosaic.compiler.cut.rules import windows_of
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine import ELEMENT, reciprocal_scale
from tosaic.compiler.machine_numbers import POOL_PATCH_AM_PART
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest

_MAX_TAPS = largest(Opcode.VECTOR_GO, "repeats")
"""Elements of a window that one VECTOR_GO repeats over."""


def split_pool(new: Rewriting, config: Config) -> bool:
    """Rewrites an AVG_POOL2D or MAX_POOL2D of integers whose window does not fit, or is the whole image."""
    operator, data = new.operator, new.operator.inputs[0]
    source = new.graph.tensors[data]
    if source.dtype not in (DType.INT8, DType.INT16):
        return False
    n, ih, iw, c = source.shape
    _, oh, ow, _ = new.shape(operator.outputs[0])
    kh, kw = operator.attributes["kernel"]
    taps = min(kh, ih) * min(kw, iw)
    patch_bytes = taps * min(c, config.columns) * ELEMENT[source.dtype].bytes
    rows, columns = (
        [axis.needs((position, position + 1)) for position in range(axis.outputs)]
        for axis in windows_of(new.graph, operator)
    )
    whole = rows == [(0, ih)] and columns == [(0, iw)]
    if not whole and taps <= _MAX_TAPS and patch_bytes * POOL_PATCH_AM_PART <= config.am_bytes:
        return False
    if operator.op == "MAX_POOL2D":
        nan_mode = operator.attributes.get("nan_mode", "PROPAGATE")
        result = _along(new, data, 1, rows, "REDUCE_MAX", nan_mode=nan_mode)
        result = _along(new, result, 2, columns, "REDUCE_MAX", nan_mode=nan_mode)
        new.reshape(result, (n, oh, ow, c), operator.outputs[0])
        return True
    zero_point = new.constant(new.graph.operand_value(operator, "input_zp").reshape(1), source.dtype)
    wide = _rescaled(new, data, [(1 << 30, 30)], zero_point, new.zeros(1, DType.INT32))
    sums = _along(new, _along(new, wide, 1, rows, "REDUCE_SUM"), 2, columns, "REDUCE_SUM")
    _divided(new, sums, [(y[1] - y[0]) * (x[1] - x[0]) for y in rows for x in columns])
    return True


def _along(
    new: Rewriting, data: str, axis: int, windows: list[tuple[int, int]], op: str, **attributes: str
) -> str:
    """The windows reduced along an axis, one behind the other."""
    shape, dtype = new.shape(data), new.graph.tensors[data].dtype
    one = (*shape[:axis], 1, *shape[axis + 1 :])
    found: dict[tuple[int, int], str] = {}
    for first, last in windows:
        if (first, last) in found:
            continue
        start = tuple(first if i == axis else 0 for i in range(len(shape)))
        part = data
        if last - first < shape[axis]:
            part = new.slice(data, start, (*shape[:axis], last - first, *shape[axis + 1 :]))
        found[first, last] = new.add(op, [part], one, dtype, axis=axis, **attributes)
    if len(windows) == 1:
        return found[windows[0]]
    target = (*shape[:axis], len(windows), *shape[axis + 1 :])
    return new.add("CONCAT", [found[window] for window in windows], target, dtype, axis=axis)


def _divided(new: Rewriting, sums: str, counts: list[int]) -> None:
    """The averages: every position has its own divisor, so positions take the place of channels."""
    operator, (n, oh, ow, c) = new.operator, new.shape(sums)
    dtype, positions = new.graph.tensors[operator.outputs[0]].dtype, oh * ow
    scales = [reciprocal_scale(count) for count in counts]
    same = len(set(scales)) == 1
    if not same:
        sums = new.transpose(new.reshape(sums, (n, positions, c)), (0, 2, 1))
    zero_point = new.constant(new.graph.operand_value(operator, "output_zp").reshape(1), dtype)
    output = operator.outputs[0] if same else None
    result = _rescaled(
        new, sums, scales[:1] if same else scales, new.zeros(1, DType.INT32), zero_point, output
    )
    if not same:
        result = new.transpose(result, (0, 2, 1))
        new.reshape(result, (n, oh, ow, c), operator.outputs[0])


def _rescaled(
    new: Rewriting,
    data: str,
    scales: list[tuple[int, int]],
    input_zp: str,
    output_zp: str,
    output: str | None = None,
) -> str:
    """A RESCALE to the type of `output_zp`; `scales` are multiplier and shift of all channels or of each."""
    multipliers, shifts = zip(*scales, strict=True)
    constants = [new.constant(np.array(multipliers), DType.INT32), new.constant(np.array(shifts), DType.INT8)]
    return new.add(
        "RESCALE",
        [data, *constants, input_zp, output_zp],
        new.shape(data),
        new.graph.tensors[output_zp].dtype,
        output,
        scale32=True,
        rounding_mode="SINGLE_ROUND",
        per_channel=len(scales) > 1,
        input_unsigned=False,
        output_unsigned=False,
    )
