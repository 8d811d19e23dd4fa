"""Matrix products of any rank."""

import math

from tosaic.compiler.importers.lowering.lowering import Lowering
from tosaic.compiler.ir import DType


def matmul(low: Lowering, a: str, b: str, zero_points: tuple[int, int] = (0, 0)) -> str:
    """numpy.matmul(a, b): batch axes broadcast, a vector counts as one row (a) or one column (b).

    int8 gives int32; the zero points are subtracted first. A batched `a` with one `b` is one tall matrix.
    """
    shape_a, shape_b = low.shape(a), low.shape(b)
    row, column = len(shape_a) == 1, len(shape_b) == 1
    a = low.reshape(a, (1, *shape_a)) if row else a
    b = low.reshape(b, (*shape_b, 1)) if column else b
    batch_a, batch_b = low.shape(a)[:-2], low.shape(b)[:-2]
    rank = max(len(batch_a), len(batch_b))
    batch_a, batch_b = (1,) * (rank - len(batch_a)) + batch_a, (1,) * (rank - len(batch_b)) + batch_b
    batch = tuple(max(pair) for pair in zip(batch_a, batch_b, strict=True))
    (height, depth), width = low.shape(a)[-2:], low.shape(b)[-1]
    if math.prod(batch_b) == 1:
        left = low.reshape(a, (1, math.prod(batch_a) * height, depth))
        right = low.reshape(b, (1, depth, width))
    else:
        left = low.reshape(low.broadcast_to(a, (*batch, height, depth)), (math.prod(batch), height, depth))
        right = low.reshape(low.broadcast_to(b, (*batch, depth, width)), (math.prod(batch), depth, width))
    product = batched(low, left, right, zero_points)
    return low.reshape(product, (*batch, *((height,) if not row else ()), *((width,) if not column else ())))


def batched(low: Lowering, a: str, b: str, zero_points: tuple[int, int] = (0, 0)) -> str:
    """MATMUL of [N,H,C] and [N,C,W]; short floats are accumulated in fp32 and rounded once."""
    dtype = low.dtype(a)
    result = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}.get(dtype, DType.FP32)
    product = low.op(
        "MATMUL", a, b, low.zero_point(a, zero_points[0]), low.zero_point(b, zero_points[1]), dtype=result
    )
    return low.cast(product, dtype) if dtype.is_float else product
