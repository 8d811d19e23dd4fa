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

# name: kind, in the order of the schema.
ATTRIBUTE_TABLES: dict[str, dict[str, str]] = {
    "Pool": {"pad": "ints", "kernel": "ints", "stride": "ints", "input_zp": "int", "output_zp": "int"},
    "Conv": {"pad": "ints", "stride": "ints", "dilation": "ints", "input_zp": "int", "weight_zp": "int"},
    "TransposeConv": {
        "out_pad": "ints",
        "stride": "ints",
        "out_shape": "ints",
        "input_zp": "int",
        "weight_zp": "int",
    },
    "Pad": {"padding": "ints", "pad_const_int": "int", "pad_const_fp": "float"},
    "Axis": {"axis": "int"},
    "Reshape": {"new_shape": "ints"},
    "Slice": {"start": "ints", "size": "ints"},
    "Tile": {"multiples": "ints"},
    "Resize": {
        "output_size": "ints",
        "stride": "ints",
        "offset": "ints",
        "shift": "int",
        "stride_fp": "floats",
        "offset_fp": "floats",
        "mode": "resize_mode",
    },
    "Clamp": {"min_int": "int", "max_int": "int", "min_fp": "float", "max_fp": "float"},
    "Rescale": {
        "input_zp": "int",
        "output_zp": "int",
        "multiplier": "ints",
        "shift": "ints",
        "scale32": "bool",
        "double_round": "bool",
        "per_channel": "bool",
    },
    "Mul": {"shift": "int"},
    "ArithmeticRightShift": {"round": "bool"},
    "CondIf": {"then_branch": "string", "else_branch": "string"},
    "WhileLoop": {"cond_branch": "string", "body_branch": "string"},
    "Transpose": {"perms": "ints"},
    "Table": {"table": "shorts"},
    "MatMul": {"A_zp": "int", "B_zp": "int"},
    "FullyConnected": {"input_zp": "int", "weight_zp": "int"},
    "Negate": {"input1_zp": "int", "output_zp": "int"},
}

ATTRIBUTE_TABLE_OF: dict[str, str] = {
    "AVG_POOL2D": "Pool",
    "MAX_POOL2D": "Pool",
    "CONV2D": "Conv",
    "CONV3D": "Conv",
    "DEPTHWISE_CONV2D": "Conv",
    "TRANSPOSE_CONV2D": "TransposeConv",
    "PAD": "Pad",
    "ARGMAX": "Axis",
    "REDUCE_ALL": "Axis",
    "REDUCE_ANY": "Axis",
    "REDUCE_MAX": "Axis",
    "REDUCE_MIN": "Axis",
    "REDUCE_PRODUCT": "Axis",
    "REDUCE_SUM": "Axis",
    "CONCAT": "Axis",
    "REVERSE": "Axis",
    "RESHAPE": "Reshape",
    "SLICE": "Slice",
    "TILE": "Tile",
    "RESIZE": "Resize",
    "CLAMP": "Clamp",
    "RESCALE": "Rescale",
    "MUL": "Mul",
    "ARITHMETIC_RIGHT_SHIFT": "ArithmeticRightShift",
    "COND_IF": "CondIf",
    "WHILE_LOOP": "WhileLoop",
    "TRANSPOSE": "Transpose",
    "TABLE": "Table",
    "MATMUL": "MatMul",
    "FULLY_CONNECTED": "FullyConnected",
    "NEGATE": "Negate",
}
