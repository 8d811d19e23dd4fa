"""Parameters that are computed at run time (TOSA's EXT-DYNAMIC), by operators whose parameters are constants.

Instructions hold zero points, multipliers and shifts as numbers, so a parameter that is computed at run time becomes
an operand of an operator of its own. Every rewrite is an identity of integers. A zero point that TOSA wants to be zero
for the operand's type is zero here, too. Two operators keep what the vector unit reads from memory: TABLE its table, as
entries of int32, and RESCALE multipliers of int32 and shifts, one per channel.
"""

from collections.abc import Callable

from tosaic.compiler.ir import OPERATORS, DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.run_time_scales import multiply, rescale
from tosaic.compiler.legalize.run_time_values import pad, table
from tosaic.compiler.legalize.run_time_zero_points import average, negate, sums_of_products

REWRITES: dict[str, Callable[[Rewriting], None]] = {
    "AVG_POOL2D": average,
    "CONV2D": sums_of_products,
    "CONV3D": sums_of_products,
    "DEPTHWISE_CONV2D": sums_of_products,
    "MATMUL": sums_of_products,
    "MUL": multiply,
    "NEGATE": negate,
    "PAD": pad,
    "RESCALE": rescale,
    "TABLE": table,
    "TRANSPOSE_CONV2D": sums_of_products,
}


def take_parameters_as_operands(new: Rewriting) -> bool:
    """Rewrites an operator one of whose parameters is computed at run time; False if none is."""
    operator = new.operator
    if operator.op not in REWRITES:
        return False
    parameters = {
        operand.name: name
        for operand, name in zip(OPERATORS[operator.op].operands, operator.inputs, strict=True)
        if operand.constant and new.graph.const(name) is None
    }
    if not parameters or _is_read_from_memory(new, parameters):
        return False
    REWRITES[operator.op](new)
    return True


def _is_read_from_memory(new: Rewriting, parameters: dict[str, str]) -> bool:
    """Whether the vector unit takes the run-time parameters of an operator as they are."""
    operator = new.operator
    if operator.op == "TABLE":
        return new.dtype(operator.inputs[1]) is DType.INT32
    only_scales = operator.op == "RESCALE" and parameters.keys() <= {"multiplier", "shift"}
    return only_scales and operator.attributes["per_channel"] and new.dtype(operator.inputs[1]) is DType.INT32
