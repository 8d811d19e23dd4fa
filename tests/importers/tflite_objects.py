"""TFLite files from the schema's objects."""

from collections.abc import Sequence

import flatbuffers
from ai_edge_litert import schema_py_generated as schema


def tensor(name: str, shape: list[int], kind: int, buffer: int = 0, scale: float = 0.0) -> schema.TensorT:
    made = schema.TensorT()
    made.name, made.shape, made.type, made.buffer = name.encode(), shape, kind, buffer
    if scale:
        made.quantization = schema.QuantizationParametersT()
        made.quantization.scale, made.quantization.zeroPoint = [scale], [0]
    return made


def operator(
    code: int, inputs: list[int], outputs: list[int], options: str = "", **fields: object
) -> schema.OperatorT:
    """`code` is the index in the model's operator codes."""
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
    if options:
        made.builtinOptionsType = getattr(schema.BuiltinOptions, options)
        made.builtinOptions = getattr(schema, f"{options}T")()
        for name, value in fields.items():
            setattr(made.builtinOptions, name, value)
    return made


def packed(graphs: Sequence[schema.SubGraphT], buffers: list[schema.BufferT], codes: Sequence[int]) -> bytes:
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, list(graphs), buffers, []
    for code in codes:
        entry = schema.OperatorCodeT()
        entry.builtinCode, entry.deprecatedBuiltinCode, entry.version = code, min(code, 127), 1
        model.operatorCodes.append(entry)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
