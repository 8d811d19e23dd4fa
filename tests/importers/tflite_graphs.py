"""A streaming TFLite model: resource variables and their initialization."""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_FRAMES, CHANNELS = 4, 3


def _tensor(name: str, shape: list[int], kind: int, buffer: int = 0, scale: float = 0.0) -> schema.TensorT:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), shape, kind, buffer
    if scale:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
    return tensor


def _operator(
    code: int, inputs: list[int], outputs: list[int], options: str = "", **fields: object
) -> schema.OperatorT:
    operator = schema.OperatorT()
    operator.opcodeIndex, operator.inputs, operator.outputs = code, inputs, outputs
    if options:
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        operator.builtinOptions = getattr(schema, f"{options}T")()
        for name, value in fields.items():
            setattr(operator.builtinOptions, name, value)
    return operator


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
        _tensor("frame", [1, 1, CHANNELS], types.INT8, scale=0.1),
        _tensor("handle", [], types.RESOURCE),
        _tensor("held", held, types.INT8, scale=0.1),
        _tensor("all", [1, _FRAMES, CHANNELS], types.INT8, scale=0.1),
        _tensor("begin", [3], types.INT32, 2),
        _tensor("end", [3], types.INT32, 3),
        _tensor("step", [3], types.INT32, 4),
        _tensor("kept", held, types.INT8, scale=0.1),
        _tensor("axis", [1], types.INT32, 5),
        _tensor("mean", [1, CHANNELS], types.INT8, scale=0.07),
    ]
    main = schema.SubGraphT()
    main.name, main.tensors, main.inputs, main.outputs = b"main", tensors, [0], [9]
    main.operators = [
        _operator(0, [], [], "CallOnceOptions", initSubgraphIndex=1),
        _operator(1, [], [1], "VarHandleOptions", sharedName=b"ring"),
        _operator(2, [1], [2], "ReadVariableOptions"),
        _operator(3, [2, 0], [3], "ConcatenationOptions", axis=1),
        _operator(4, [3, 4, 5, 6], [7], "StridedSliceOptions"),
        _operator(5, [1, 7], [], "AssignVariableOptions"),
        _operator(6, [3, 8], [9], "ReducerOptions", keepDims=False),
    ]
    first = schema.SubGraphT()
    first.name, first.inputs, first.outputs = b"initialize", [], []
    first.tensors = [_tensor("handle", [], types.RESOURCE), _tensor("zeros", held, types.INT8, 1, 0.1)]
    first.operators = [_operator(1, [], [0], "VarHandleOptions", sharedName=b"ring")]
    if initialized:
        first.operators.append(_operator(5, [0, 1], [], "AssignVariableOptions"))
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [main, first], buffers, []
    for code in codes:
        entry = schema.OperatorCodeT()
        entry.builtinCode, entry.deprecatedBuiltinCode, entry.version = code, min(code, 127), 1
        model.operatorCodes.append(entry)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
