"""Numbers of the 1.0/1.1 file schema: enumerations and, for each operator, its attribute table's fields.

An operator's number is also its attribute table's number in the union. Field numbers are positions.
"""

from tosaic.compiler.ir.dtypes import DType

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

VARIABLE_ATTRIBUTES = tuple(OPERATORS.index(name) for name in ("VARIABLE_READ", "VARIABLE_WRITE"))
"""Types of attributes by which Arm's tools tell the operators of variables, which they number as IDENTITY."""

ENUMERATIONS: dict[str, tuple[str, ...]] = {
    "nan_mode": ("UNKNOWN", "PROPAGATE", "IGNORE"),
    "rounding_mode": ("UNKNOWN", "SINGLE_ROUND", "INEXACT_ROUND", "DOUBLE_ROUND"),
    "mode": ("UNKNOWN", "NEAREST", "BILINEAR"),
}

_ATTRIBUTES = """
axis nan_mode: ARGMAX REDUCE_MAX REDUCE_MIN
axis: REDUCE_ALL REDUCE_ANY REDUCE_PRODUCT REDUCE_SUM CONCAT REVERSE DIM
nan_mode: MAXIMUM MINIMUM MAX_POOL2D_ADAPTIVE
kernel stride pad acc_type: AVG_POOL2D
kernel stride pad nan_mode: MAX_POOL2D
acc_type: AVG_POOL2D_ADAPTIVE
pad stride dilation local_bound acc_type: CONV2D CONV3D DEPTHWISE_CONV2D
out_pad stride local_bound acc_type: TRANSPOSE_CONV2D
inverse local_bound: FFT2D
local_bound: RFFT2D
min_val max_val nan_mode: CLAMP
round: ARITHMETIC_RIGHT_SHIFT
perms: TRANSPOSE
mode: RESIZE
scale32 rounding_mode per_channel input_unsigned output_unsigned: RESCALE
operator_name domain_name implementation_attrs: CUSTOM
then_graph else_graph: COND_IF
cond_graph body_graph: WHILE_LOOP
allow_broadcast: ASSERT_EQUAL_SHAPE
block_size: RESHAPE_BLOCK_SCALED ROW_GATHER_BLOCK_SCALED
"""

ATTRIBUTE_FIELDS: dict[str, tuple[str, ...]] = {
    op: tuple(fields.split())
    for fields, operators in (line.split(": ") for line in _ATTRIBUTES.strip().splitlines())
    for op in operators.split()
}
"""Attribute fields in the order of the schema; operators that are not listed have an empty table."""
