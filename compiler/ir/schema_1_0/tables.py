"""Numbers of the 1.0/1.1 file schema: enumerations and, for each operator, its attribute table's fields.

An operator's number is also its attribute table's number in the union. Field numbers are positions.
"""

from tosaic.compiler.ir.dtypes import DType
from tosaic.compiler.ir.operators import OPERATORS as SPECIFIED

DTYPES: dict[int, DType] = {
    1: DType.BOOL,
    2: DType.INT4,
    3: DType.INT8,
    4: DType.INT16,
    5: DType.INT32,
    6: DType.INT48,
    7: DType.FP32,
    8: DType.FP16,
    9: DType.BF16,
    10: DType.SHAPE,
    11: DType.FP8E4M3,
    12: DType.FP8E5M2,
    17: DType.INT64,
}

UNSUPPORTED_DTYPES = {13: "FP6E2M3", 14: "FP6E3M2", 15: "FP4E2M1", 16: "FP8UE8M0", 18: "MXINT8"}
"""Microscaling types; they belong to the floating-point profile."""

_OPERATOR_NAMES = """
UNKNOWN ARGMAX AVG_POOL2D CONV2D CONV3D DEPTHWISE_CONV2D FFT2D MATMUL MAX_POOL2D RFFT2D TRANSPOSE_CONV2D
CLAMP ERF SIGMOID TANH ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR INTDIV LOGICAL_AND
LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR MAXIMUM MINIMUM MUL POW SUB TABLE ABS
BITWISE_NOT CEIL CLZ COS EXP FLOOR LOG LOGICAL_NOT NEGATE RECIPROCAL RSQRT SIN SELECT EQUAL GREATER
GREATER_EQUAL REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM CONCAT PAD RESHAPE
REVERSE SLICE TILE TRANSPOSE GATHER SCATTER RESIZE CAST RESCALE CONST IDENTITY CUSTOM COND_IF WHILE_LOOP
VARIABLE VARIABLE_WRITE VARIABLE_READ CONST_SHAPE MATMUL_T_BLOCK_SCALED CAST_FROM_BLOCK_SCALED
CAST_TO_BLOCK_SCALED DIM CONCAT_SHAPE ADD_SHAPE SUB_SHAPE MUL_SHAPE SLICE_SHAPE EXP2_SHAPE LOG2_CEIL_SHAPE
LOG2_FLOOR_SHAPE MAX_SHAPE MIN_SHAPE MOD_SHAPE DIV_CEIL_SHAPE DIV_FLOOR_SHAPE ASSERT_EQUAL_SHAPE
CONV2D_BLOCK_SCALED MAX_POOL2D_ADAPTIVE AVG_POOL2D_ADAPTIVE RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED
ROW_GATHER MATMUL_T
"""

OPERATORS: tuple[str, ...] = tuple(_OPERATOR_NAMES.split())

VARIABLE_ATTRIBUTES = (OPERATORS.index("VARIABLE_READ"), OPERATORS.index("VARIABLE_WRITE"))
"""Types of attributes by which Arm's tools tell the operators of variables, which they number as IDENTITY."""

ENUMERATIONS: dict[str, tuple[str, ...]] = {
    "nan_mode": ("UNKNOWN", "PROPAGATE", "IGNORE"),
    "rounding_mode": ("UNKNOWN", "SINGLE_ROUND", "INEXACT_ROUND", "DOUBLE_ROUND"),
    "mode": ("UNKNOWN", "NEAREST", "BILINEAR"),
}

_OTHER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "DIM": ("axis",),
    "MAX_POOL2D_ADAPTIVE": ("nan_mode",),
    "AVG_POOL2D_ADAPTIVE": ("acc_type",),
    "ASSERT_EQUAL_SHAPE": ("allow_broadcast",),
    "RESHAPE_BLOCK_SCALED": ("block_size",),
    "ROW_GATHER_BLOCK_SCALED": ("block_size",),
}
"""Of operators that files have and the operator table has not."""

ATTRIBUTE_FIELDS: dict[str, tuple[str, ...]] = _OTHER_ATTRIBUTES | {
    name: tuple(attribute.name for attribute in spec.attributes)
    for name, spec in SPECIFIED.items()
    if "1.0" in spec.versions
}
"""Attribute fields in the order of the schema, which is that of the operator table."""
