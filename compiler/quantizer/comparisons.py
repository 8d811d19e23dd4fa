"""Comparisons, and whole numbers, which are computed exactly so that they can be compared."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import DType, Operator
from tosaic.compiler.quantizer.arithmetic import aligned
from tosaic.compiler.quantizer.emission import PLAIN, WHOLE, Emission, natural
from tosaic.compiler.quantizer.encoding import Encoding, Integers
from tosaic.compiler.quantizer.functions import COMPARISONS, PASSED_ON, is_real
from tosaic.compiler.quantizer.whole_numbers import LARGEST, Span


@PLAIN.of_each(COMPARISONS)
def compare(emission: Emission, op: Operator) -> str:
    """Both sides at one scale; that of the one that is computed, if the other is a constant."""
    whole = [_whole_operand(emission, name, None) for name in op.inputs]
    if all(part is not None for part in whole):
        return emission.emit(op.op, *(part.tensor for part in whole if part is not None))
    computed = [name for name in op.inputs if emission.data(name) is None]
    if len(computed) != 1:
        tensors, _, _ = aligned(emission, op.inputs)
        return emission.emit(op.op, *tensors)
    source = emission.as_uniform(emission.as_int32(emission.settled(computed[0])))
    tensors = []
    for name in op.inputs:
        value = emission.data(name)
        if value is not None:
            levels = np.clip(
                np.rint(value.astype(np.float64) / source.step), DType.INT32.min, DType.INT32.max
            )
        constant = None if value is None else emission.low.constant(levels.astype(np.int64), DType.INT32)
        tensors.append(constant or source.tensor)
    return emission.emit(op.op, *tensors)


@natural(WHOLE)
def whole_number(emission: Emission, op: Operator) -> Integers:
    """Computes in int32 of scale 1, exactly, what a float computes of whole numbers."""
    span = emission.plan.whole[op.outputs[0]]
    inputs = [
        found.tensor if (found := _whole_operand(emission, name, span)) is not None else emission.plain(name)
        for name in op.inputs
    ]
    if op.op == "CLAMP":
        # TOSA has none of int32.
        tensor = inputs[0]
        for bound, extreme in (("min_val", "MAXIMUM"), ("max_val", "MINIMUM")):
            limit = np.clip(np.rint(op.attributes[bound]), DType.INT32.min, DType.INT32.max)
            tensor = emission.emit(extreme, tensor, emission.line(limit, tensor))
    elif op.op in PASSED_ON:
        tensor = inputs[0]
    else:
        tensor = emission.emit(op.op, *inputs, dtype=DType.INT32, **op.attributes)
    return Integers(tensor, DType.INT32, np.array(1.0), 0, max(map(abs, span)))


def _whole_operand(emission: Emission, name: str, span: Span | None) -> Integers | None:
    """A tensor of whole numbers in int32 of scale 1, saturated where it is computed with; None for any other tensor."""
    value, plan = emission.data(name), emission.plan
    if not is_real(emission.graph, name):
        return None
    if value is not None:
        if np.any(np.abs(value) > LARGEST) or np.any(value != np.rint(value)):
            return None
        constant = emission.low.constant(value.astype(np.int64), DType.INT32)
        return Integers(constant, DType.INT32, np.array(1.0), 0, float(np.abs(value).max(initial=0)))
    if name not in plan.whole:
        return None
    found = emission.natural(name)
    low, high = plan.whole[name]
    if span is None or found.bound <= max(-low, high):
        return found
    limited = dataclasses.replace(found, low=low, high=high)
    tensor = emission.convert(limited, Encoding(DType.INT32, 1.0))
    return Integers(tensor, DType.INT32, np.array(1.0), 0, max(-low, high))
