"""TFLite models through the public converter: names, numbers, and damaged files."""

import random

import flatbuffers
import numpy as np
import pytest
import tflite

from tosaic.compiler.importers import import_model
from tosaic.compiler.ir.errors import Error, InputError, ModelError, UnsupportedError
from tosaic.sim.golden import evaluate

IN_SCALE, WEIGHT_SCALE, OUT_SCALE, IN_ZERO, OUT_ZERO = 0.05, 0.02, 0.11, -7, 12
RANDOM = np.random.default_rng(3)
WEIGHTS = RANDOM.integers(-127, 128, (5, 12)).astype(np.int8)
BIAS = RANDOM.integers(-3000, 3000, 5).astype(np.int32)


def vector(build, start, values, prepend):
    start(build, len(values))
    for value in reversed(values):
        prepend(value)
    return build.EndVector()


def quantization(build, scale, zero):
    scales = vector(build, tflite.QuantizationParametersStartScaleVector, [scale], build.PrependFloat32)
    zeros = vector(build, tflite.QuantizationParametersStartZeroPointVector, [zero], build.PrependInt64)
    tflite.QuantizationParametersStart(build)
    tflite.QuantizationParametersAddScale(build, scales)
    tflite.QuantizationParametersAddZeroPoint(build, zeros)
    return tflite.QuantizationParametersEnd(build)


def tensor(build, name, shape, kind, buffer, scale, zero):
    text, quantized = build.CreateString(name), quantization(build, scale, zero)
    sizes = vector(build, tflite.TensorStartShapeVector, shape, build.PrependInt32)
    tflite.TensorStart(build)
    tflite.TensorAddShape(build, sizes)
    tflite.TensorAddType(build, kind)
    tflite.TensorAddBuffer(build, buffer)
    tflite.TensorAddName(build, text)
    tflite.TensorAddQuantization(build, quantized)
    return tflite.TensorEnd(build)


def dense_model() -> bytes:
    """An int8 FULLY_CONNECTED with a fused RELU, [2, 12] to [2, 5]."""
    build = flatbuffers.Builder(1024)
    buffers = []
    for data in (b"", WEIGHTS.tobytes(), BIAS.tobytes()):
        content = build.CreateByteVector(data) if data else None
        tflite.BufferStart(build)
        if content is not None:
            tflite.BufferAddData(build, content)
        buffers.append(tflite.BufferEnd(build))
    tensors = [
        tensor(build, "image", [2, 12], tflite.TensorType.INT8, 0, IN_SCALE, IN_ZERO),
        tensor(build, "weights", [5, 12], tflite.TensorType.INT8, 1, WEIGHT_SCALE, 0),
        tensor(build, "bias", [5], tflite.TensorType.INT32, 2, IN_SCALE * WEIGHT_SCALE, 0),
        tensor(build, "scores", [2, 5], tflite.TensorType.INT8, 0, OUT_SCALE, OUT_ZERO),
    ]
    tflite.FullyConnectedOptionsStart(build)
    tflite.FullyConnectedOptionsAddFusedActivationFunction(build, tflite.ActivationFunctionType.RELU)
    options = tflite.FullyConnectedOptionsEnd(build)
    reads = vector(build, tflite.OperatorStartInputsVector, [0, 1, 2], build.PrependInt32)
    writes = vector(build, tflite.OperatorStartOutputsVector, [3], build.PrependInt32)
    tflite.OperatorStart(build)
    tflite.OperatorAddOpcodeIndex(build, 0)
    tflite.OperatorAddInputs(build, reads)
    tflite.OperatorAddOutputs(build, writes)
    tflite.OperatorAddBuiltinOptionsType(build, tflite.BuiltinOptions.FullyConnectedOptions)
    tflite.OperatorAddBuiltinOptions(build, options)
    operator = tflite.OperatorEnd(build)
    offset = build.PrependUOffsetTRelative
    parts = [
        vector(build, tflite.SubGraphStartTensorsVector, tensors, offset),
        vector(build, tflite.SubGraphStartInputsVector, [0], build.PrependInt32),
        vector(build, tflite.SubGraphStartOutputsVector, [3], build.PrependInt32),
        vector(build, tflite.SubGraphStartOperatorsVector, [operator], offset),
    ]
    name = build.CreateString("main")
    tflite.SubGraphStart(build)
    tflite.SubGraphAddTensors(build, parts[0])
    tflite.SubGraphAddInputs(build, parts[1])
    tflite.SubGraphAddOutputs(build, parts[2])
    tflite.SubGraphAddOperators(build, parts[3])
    tflite.SubGraphAddName(build, name)
    graphs = vector(build, tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(build)], offset)
    code = tflite.BuiltinOperator.FULLY_CONNECTED
    tflite.OperatorCodeStart(build)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(build, code)
    tflite.OperatorCodeAddBuiltinCode(build, code)
    tflite.OperatorCodeAddVersion(build, 4)
    codes = vector(build, tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(build)], offset)
    stored = vector(build, tflite.ModelStartBuffersVector, buffers, offset)
    tflite.ModelStart(build)
    tflite.ModelAddVersion(build, 3)
    tflite.ModelAddOperatorCodes(build, codes)
    tflite.ModelAddSubgraphs(build, graphs)
    tflite.ModelAddBuffers(build, stored)
    build.Finish(tflite.ModelEnd(build), b"TFL3")
    return bytes(build.Output())


def test_dense_layer(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    graph = import_model(path)
    assert graph.inputs == ["image"] and graph.outputs == ["scores"]
    x = RANDOM.integers(-128, 128, (2, 12)).astype(np.int8)
    sums = (x.astype(np.int64) - IN_ZERO) @ WEIGHTS.T.astype(np.int64) + BIAS
    scaled = sums * (np.float64(np.float32(IN_SCALE)) * np.float32(WEIGHT_SCALE) / np.float32(OUT_SCALE))
    wanted = np.clip(np.rint(scaled) + OUT_ZERO, OUT_ZERO, 127)
    np.testing.assert_array_equal(evaluate(graph, {"image": x})["scores"], wanted)


def test_another_batch(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    with pytest.raises(InputError, match="image=2,12"):
        import_model(path, {"batch": 1})


def test_damaged_files(tmp_path) -> None:
    path, data, chance = tmp_path / "damaged.tflite", dense_model(), random.Random(5)
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match="TFL3"):
        import_model(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(Error):
        import_model(path)
    for _ in range(8):
        raw = bytearray(data)
        for _ in range(3):
            raw[chance.randrange(8, len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        try:
            import_model(path)
        except Error as error:
            assert "\n" not in str(error)


def test_missing_converter(tmp_path, monkeypatch) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'tosaic\[tflite\]'"):
        import_model(path)
