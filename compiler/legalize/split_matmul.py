"""MATMULs whose inner dimension is too large for the memories, as sums of MATMULs over a part of it each."""

from tosaic.compiler.cut.rules import CHANNELS
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.machine_numbers import MATMUL_ROW_AM_PART, WEIGHT_PIECE_WM_PART
from tosaic.hw.config import Config


def split_matmul(new: Rewriting, config: Config) -> bool:
    """Rewrites an int8 MATMUL that does not fit. int32 addition wraps, so partial sums may be added in any order."""
    graph, operator = new.graph, new.operator
    a, b, *zero_points = operator.inputs
    output = operator.outputs[0]
    if graph.tensors[a].dtype is not DType.INT8:
        return False
    (n, h, c), width = new.shape(a), new.shape(b)[2]
    # A row of A in words, W bytes of weights for each of its bytes; several rows and their results beside it.
    words = min(config.wm_bytes // config.columns**2, config.am_bytes // MATMUL_ROW_AM_PART // config.columns)
    if c <= words * config.columns:
        return False
    step = max(1, words // WEIGHT_PIECE_WM_PART) * config.columns
    total = None
    for first in range(0, c, step):
        cut = new.part_of_sum({CHANNELS: (first, min(first + step, c))})
        left, right = new.box(a, cut.operands[0]), new.box(b, cut.operands[1])
        last = first + step >= c
        product = new.add("MATMUL", [left, right, *zero_points], (n, h, width), DType.INT32)
        if total is not None:
            product = new.add("ADD", [total, product], (n, h, width), DType.INT32, output if last else None)
        total = product
    return True
