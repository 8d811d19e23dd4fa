"""Functions of one variable by int16 tables; int8 ones are emitted where they are asked for."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.arithmetic import bent_line
from tosaic.compiler.quantizer.emission import HEADROOM_BITS, Emission, natural
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.compiler.quantizer.tables import (
    INTERPOLATION,
    TableSegment,
    counted,
    is_counted,
    of_whole_numbers,
    pieces,
)
from tosaic.compiler.quantizer.wide_range import reads_logarithm, small_squares

_COARSEST_UNIT = 8.0
"""Steps of a table's input that a unit of a convolution's sums may be where the table's centre is taken from these: the
centre is then off by at most 4 steps, a 64th of a step of int8."""
_STEEPEST = 2.0**28
"""Units of a table's input that one unit of its source may be."""

_DECADES = 2.0**-9
"""A function that has results smaller than this share of its largest tells them by 6 of 16 bits."""
_REST_BITS = 14

_LARGEST_INDEX = 2.0**28
"""The index of a table before it is cut, for any input."""


@natural("TABLE")
def table(emission: Emission, op: Operator) -> Integers:
    """The whole function from its root on, in one table, or in pieces that the input selects."""
    plan, (result,) = emission.plan, op.outputs
    if plan.as_onnx and (line := bent_line(emission, op)) is not None:
        return line
    root = plan.functions.root(result)
    low, high = plan.statistics.range_seen(root)

    def function(x: np.ndarray) -> np.ndarray:
        return plan.functions(result, x)

    if plan.is_bent(root) and not plan.held(result):
        exact = _of_bytes(emission, root, function, plan.largest(result))
        if exact is not None:
            return exact
    if plan.readers[root] == {result} and not plan.held(root) and root not in plan.whole:
        parts = pieces(function, low, high, plan.as_onnx)
        index = _less_its_row(emission, root, parts[0]) if len(parts) == 1 else None
        if index is not None:
            return _in_pieces(emission, index, [dataclasses.replace(parts[0], centre=0.0)])
    source = emission.settled(root)
    if root in plan.whole and is_counted(plan.whole[root]):
        return _in_pieces(emission, source, [counted(function, low, high)])
    fine = None
    if source.dtype is DType.INT32 and source.uniform and reads_logarithm(plan, root):
        fine = small_squares(emission, root, source)
    if fine is None or low >= fine.high:
        return _in_pieces(emission, source, pieces(function, low, high, plan.as_onnx))
    # Finer steps below `fine.high`, those of the sum itself above.
    small = _in_pieces(emission, dataclasses.replace(fine, high=math.inf), pieces(function, low, fine.high))
    large = _in_pieces(emission, source, pieces(function, fine.high, high))
    scale = max(small.reach, large.reach) / 2**HEADROOM_BITS
    edge = emission.line(np.array([np.floor(fine.high / fine.step)]), fine.tensor)
    below = emission.emit("GREATER", edge, fine.tensor)
    both = [emission.as_int32(part, scale).tensor for part in (small, large)]
    return Integers(
        emission.emit("SELECT", below, *both), DType.INT32, np.array(scale), 0, 2.0**HEADROOM_BITS + 1
    )


def _of_bytes(
    emission: Emission, root: str, function: Callable[[np.ndarray], np.ndarray], largest: float
) -> Integers | None:
    """A function that spans decades, of an input of 8 bits: 30 bits for each of its integers, as the sum of two tables.
    None for functions that 16 bits do for, and for inputs of 16 bits. `largest` is the largest magnitude seen."""
    source = emission.wide(root)
    if source.dtype is not DType.INT8 or source.encoding is None:
        return None
    values = function(source.encoding.dequantize(np.arange(DType.INT8.min, DType.INT8.max + 1)))
    values = np.clip(values, -largest, largest)
    sizes = np.abs(values)
    if not values.any() or sizes[sizes > 0].min() > _DECADES * sizes.max():
        return None
    scale = float(sizes.max()) / DType.INT16.max
    first, fine = np.rint(values / scale), scale / 2.0**_REST_BITS
    whole = dataclasses.replace(source, scale=np.array(1.0), zero_point=0, encoding=None)
    terms = []
    for entries, step in ((first, scale), (np.rint((values - first * scale) / fine), fine)):
        part = of_whole_numbers(entries, DType.INT8.min, step)
        tensor = _looked_up(emission, whole, part)
        found = Integers(tensor, DType.INT32, np.array(step / INTERPOLATION), 0, part.bound)
        terms.append(emission.as_int32(found, fine))
    total = emission.emit("ADD", *(term.tensor for term in terms))
    return Integers(total, DType.INT32, np.array(fine), 0, sum(term.bound for term in terms))


def _less_its_row(emission: Emission, root: str, part: TableSegment) -> Integers | None:
    """x less a number of each row, in the steps of the table that alone reads it, its centre at 0; None for others.

    What is added to a whole row is computed once; x is scaled, added to and cut in one micro-operation.
    """
    op = emission.plan.producers.get(root)
    if op is None or op.op != "SUB" or any(emission.data(name) is not None for name in op.inputs):
        return None
    shape, row = (emission.shape(name) for name in op.inputs)
    if shape != emission.shape(root) or row != (*shape[:-1], 1) or shape[-1] == 1:
        return None
    x, number = (emission.settled(name) for name in op.inputs)
    centre = float(np.rint(part.centre / part.step))
    bound = abs(centre) + (x.reach + number.reach) / part.step + 2
    if not (x.uniform and number.uniform) or bound >= _LARGEST_INDEX:
        return None
    x, number = (emission.as_int32(each, part.step) for each in (x, number))
    offset = emission.emit("SUB", emission.line(np.array([-centre]), number.tensor), number.tensor)
    tensor = emission.emit("ADD", x.tensor, offset)
    return Integers(tensor, DType.INT32, np.array(part.step), 0, bound)


def _in_pieces(emission: Emission, source: Integers, parts: list[TableSegment]) -> Integers:
    """The tables of a function, chosen by the input."""
    if len(parts) == 1:
        tensor = _looked_up(emission, source, parts[0])
        return Integers(tensor, DType.INT32, np.array(parts[0].scale / INTERPOLATION), 0, parts[0].bound)
    wide = emission.as_uniform(emission.as_int32(source))
    scale = max(part.bound * part.scale / INTERPOLATION for part in parts) / 2**HEADROOM_BITS
    chosen = None
    for part in reversed(parts):
        found = Integers(
            _looked_up(emission, wide, part), DType.INT32, np.array(part.scale / INTERPOLATION), 0, part.bound
        )
        here = emission.convert(found, Encoding(DType.INT32, scale))
        if chosen is None:
            chosen = here
        else:
            # An edge beyond int32 is above whatever the input holds.
            level = min(np.rint(part.high / wide.step), DType.INT32.max)
            edge = emission.line(np.array([level]), wide.tensor)
            chosen = emission.emit("SELECT", emission.emit("GREATER", edge, wide.tensor), here, chosen)
    assert chosen is not None
    return Integers(chosen, DType.INT32, np.array(scale), 0, 2.0**HEADROOM_BITS + 1)


def _looked_up(emission: Emission, source: Integers, part: TableSegment) -> str:
    """TABLE of a piece, int32; inputs outside of it saturate."""
    if abs(part.centre) > part.step:
        source = _less_centre(emission, source, part)
    # Of a jump, any integer beside it is outside, and RESCALE has no steps as small as its piece.
    step = max(part.step, float(np.max(source.scale)) / _STEEPEST)
    index = emission.convert(source, Encoding(DType.INT16, step))
    return emission.emit("TABLE", index, emission.low.constant(part.entries, DType.INT16), dtype=DType.INT32)


def _less_centre(emission: Emission, source: Integers, part: TableSegment) -> Integers:
    """Integers less the centre of a table. Sums of a convolution keep the unit of each channel, so that the compiler
    adds the centre to the bias, but where such a unit is coarse beside the table's."""
    offset = np.rint(part.centre / source.scale)
    sums = emission.are_sums(source.tensor) and source.dtype is DType.INT32 and not source.bounded
    fine = float(np.max(source.scale)) <= _COARSEST_UNIT * part.step
    if not (sums and fine and source.bound + float(np.abs(offset).max()) < 2.0**31):
        source = emission.as_uniform(emission.as_int32(source))
        offset = np.rint(part.centre / source.step)
        if abs(offset) + source.bound >= 2**31:
            source = emission.as_int32(source, source.step * (abs(offset) + source.bound) / 2**29)
            offset = np.rint(part.centre / source.step)
    shifted = emission.emit("SUB", source.tensor, emission.line(offset, source.tensor))
    return Integers(shifted, DType.INT32, source.scale, 0, source.bound + float(np.abs(offset).max()))
