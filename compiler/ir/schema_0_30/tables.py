"""Numbers of the 0.30.0 file schema: enumerations, attribute tables and which operator has which.

Field numbers are positions. An attribute table's number in the union is its position plus one.
"""

from tosaic.compiler.ir.dtypes import DType

DTYPES: dict[int, DType] = {
    1: DType.BOOL,
    2: DType.UINT8,
    3: DType.INT4,
    4: DType.INT8,
    5: DType.INT16,
    6: DType.INT32,
    7: DType.INT48,
    8: DType.FP32,
    9: DType.UINT16,
}

_OPERATOR_NAMES = """
UNKNOWN ARGMAX AVG_POOL2D CONV2D CONV3D DEPTHWISE_CONV2D FULLY_CONNECTED MATMUL MAX_POOL2D
TRANSPOSE_CONV2D CLAMP RESERVED SIGMOID TANH ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_OR BITWISE_XOR
INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_RIGHT_SHIFT LOGICAL_OR LOGICAL_XOR MAXIMUM MINIMUM MUL POW SUB
TABLE ABS BITWISE_NOT CEIL CLZ EXP FLOOR LOG LOGICAL_NOT NEGATE RECIPROCAL RSQRT SELECT EQUAL GREATER
GREATER_EQUAL REDUCE_ANY REDUCE_ALL REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM CONCAT PAD RESHAPE
REVERSE SLICE TILE TRANSPOSE GATHER SCATTER RESIZE CAST RESCALE CONST IDENTITY CUSTOM COND_IF
WHILE_LOOP
"""

OPERATORS: tuple[str, ...] = tuple(_OPERATOR_NAMES.split())

RESIZE_MODES = ("UNKNOWN", "NEAREST", "BILINEAR")

_ATTRIBUTES = """
Pool: pad kernel stride ints, input_zp output_zp int: AVG_POOL2D MAX_POOL2D
Conv: pad stride dilation ints, input_zp weight_zp int: CONV2D CONV3D DEPTHWISE_CONV2D
TransposeConv: out_pad stride out_shape ints, input_zp weight_zp int: TRANSPOSE_CONV2D
Pad: padding ints, pad_const_int int, pad_const_fp float: PAD
Axis: axis int: ARGMAX REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PRODUCT REDUCE_SUM CONCAT REVERSE
Reshape: new_shape ints: RESHAPE
Slice: start size ints: SLICE
Tile: multiples ints: TILE
Resize: output_size stride offset ints, shift int, stride_fp offset_fp floats, mode resize_mode: RESIZE
Clamp: min_int max_int int, min_fp max_fp float: CLAMP
Rescale: input_zp output_zp int, multiplier shift ints, scale32 double_round per_channel bool: RESCALE
Mul: shift int: MUL
ArithmeticRightShift: round bool: ARITHMETIC_RIGHT_SHIFT
CondIf: then_branch else_branch string: COND_IF
WhileLoop: cond_branch body_branch string: WHILE_LOOP
Transpose: perms ints: TRANSPOSE
Table: table shorts: TABLE
MatMul: A_zp B_zp int: MATMUL
FullyConnected: input_zp weight_zp int: FULLY_CONNECTED
Negate: input1_zp output_zp int: NEGATE
"""
"""Attribute table: its fields in the order of the schema, followed by their kind: the operators that have it."""

_ROWS = [line.split(": ") for line in _ATTRIBUTES.strip().splitlines()]

ATTRIBUTE_TABLES: dict[str, dict[str, str]] = {
    table: {name: kind for group in fields.split(", ") for *names, kind in (group.split(),) for name in names}
    for table, fields, _ in _ROWS
}
ATTRIBUTE_TABLE_OF: dict[str, str] = {op: table for table, _, operators in _ROWS for op in operators.split()}
