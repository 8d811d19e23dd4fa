"""A streaming TFLite model: resource variables and their initialization."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from tflite_objects import operator, packed, tensor

_FRAMES, CHANNELS = 4, 3


def streaming_model(initialized: bool = True) -> bytes:
    """The frames of the last runs and a new one, of which a mean is taken; the oldest frame is forgotten."""
    kinds, types = schema.BuiltinOperator, schema.TensorType
    codes = [
        kinds.CALL_ONCE, kinds.VAR_HANDLE, kinds.READ_VARIABLE, kinds.CONCATENATION, kinds.STRIDED_SLICE,
        kinds.ASSIGN_VARIABLE, kinds.MEAN,
    ]  # fmt: skip
    constants = [
        np.zeros((1, _FRAMES - 1, CHANNELS), np.int8), np.array([0, 1, 0], np.int32),
        np.array([1, _FRAMES, CHANNELS], np.int32), np.ones(3, np.int32), np.array([1], np.int32),
    ]  # fmt: skip
    buffers = [schema.BufferT()]
    for constant in constants:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(constant.tobytes(), np.uint8)
        buffers.append(buffer)
    held = [1, _FRAMES - 1, CHANNELS]
    tensors = [
        tensor("frame", [1, 1, CHANNELS], types.INT8, scale=0.1),
        tensor("handle", [], types.RESOURCE),
        tensor("held", held, types.INT8, scale=0.1),
        tensor("all", [1, _FRAMES, CHANNELS], types.INT8, scale=0.1),
        tensor("begin", [3], types.INT32, 2),
        tensor("end", [3], types.INT32, 3),
        tensor("step", [3], types.INT32, 4),
        tensor("kept", held, types.INT8, scale=0.1),
        tensor("axis", [1], types.INT32, 5),
        tensor("mean", [1, CHANNELS], types.INT8, scale=0.07),
    ]
    main = schema.SubGraphT()
    main.name, main.tensors, main.inputs, main.outputs = b"main", tensors, [0], [9]
    main.operators = [
        operator(0, [], [], "CallOnceOptions", initSubgraphIndex=1),
        operator(1, [], [1], "VarHandleOptions", sharedName=b"ring"),
        operator(2, [1], [2], "ReadVariableOptions"),
        operator(3, [2, 0], [3], "ConcatenationOptions", axis=1),
        operator(4, [3, 4, 5, 6], [7], "StridedSliceOptions"),
        operator(5, [1, 7], [], "AssignVariableOptions"),
        operator(6, [3, 8], [9], "ReducerOptions", keepDims=False),
    ]
    first = schema.SubGraphT()
    first.name, first.inputs, first.outputs = b"initialize", [], []
    first.tensors = [tensor("handle", [], types.RESOURCE), tensor("zeros", held, types.INT8, 1, 0.1)]
    first.operators = [operator(1, [], [0], "VarHandleOptions", sharedName=b"ring")]
    if initialized:
        first.operators.append(operator(5, [0, 1], [], "AssignVariableOptions"))
    return packed([main, first], buffers, codes)
