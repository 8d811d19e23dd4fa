"""TFLite models made by hand, and damaged copies of them."""

import functools
import pathlib
import random
import tempfile
from typing import Any

import flatbuffers
import numpy as np
import tflite
from failed_case import Case
from fuzz_runner import Tally, allowed_bytes, judged
from tflite_graphs import streaming_model

from tosaic.compiler.importers import import_model
from tosaic.compiler.importers.tflite import import_tflite_integers

_HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = (str(_HERE.parent / "fuzzing"), str(_HERE))
IMPORTERS = {"import_model": import_model, "import_tflite_integers": import_tflite_integers}
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


def tensor(build, name, shape, kind, buffer, encoding=None):
    """A tensor; `encoding` is scale and zero point."""
    text, quantized = build.CreateString(name), quantization(build, *encoding) if encoding else None
    sizes = vector(build, tflite.TensorStartShapeVector, shape, build.PrependInt32)
    tflite.TensorStart(build)
    tflite.TensorAddShape(build, sizes)
    tflite.TensorAddType(build, kind)
    tflite.TensorAddBuffer(build, buffer)
    tflite.TensorAddName(build, text)
    if quantized is not None:
        tflite.TensorAddQuantization(build, quantized)
    return tflite.TensorEnd(build)


def operator(build, code, inputs, outputs, kind, options):
    """An operator with its options, which are of the builtin options' `kind`."""
    reads = vector(build, tflite.OperatorStartInputsVector, inputs, build.PrependInt32)
    writes = vector(build, tflite.OperatorStartOutputsVector, outputs, build.PrependInt32)
    tflite.OperatorStart(build)
    tflite.OperatorAddOpcodeIndex(build, code)
    tflite.OperatorAddInputs(build, reads)
    tflite.OperatorAddOutputs(build, writes)
    tflite.OperatorAddBuiltinOptionsType(build, kind)
    tflite.OperatorAddBuiltinOptions(build, options)
    return tflite.OperatorEnd(build)


def buffers_of(build, contents):
    """The buffers of a model; buffer 0 is empty, for what is no constant."""
    buffers = []
    for data in (b"", *contents):
        content = build.CreateByteVector(data) if data else None
        tflite.BufferStart(build)
        if content is not None:
            tflite.BufferAddData(build, content)
        buffers.append(tflite.BufferEnd(build))
    return buffers


def finished(build, tensors, operators, codes, buffers, output) -> bytes:
    """The model of these parts, from tensor 0 to tensor `output`; `codes` are builtin operators and their versions."""
    offset = build.PrependUOffsetTRelative
    parts = [
        vector(build, tflite.SubGraphStartTensorsVector, tensors, offset),
        vector(build, tflite.SubGraphStartInputsVector, [0], build.PrependInt32),
        vector(build, tflite.SubGraphStartOutputsVector, [output], build.PrependInt32),
        vector(build, tflite.SubGraphStartOperatorsVector, operators, offset),
    ]
    name = build.CreateString("main")
    tflite.SubGraphStart(build)
    tflite.SubGraphAddTensors(build, parts[0])
    tflite.SubGraphAddInputs(build, parts[1])
    tflite.SubGraphAddOutputs(build, parts[2])
    tflite.SubGraphAddOperators(build, parts[3])
    tflite.SubGraphAddName(build, name)
    graphs = vector(build, tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(build)], offset)
    entries = []
    for code, version in codes:
        tflite.OperatorCodeStart(build)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(build, code)
        tflite.OperatorCodeAddBuiltinCode(build, code)
        tflite.OperatorCodeAddVersion(build, version)
        entries.append(tflite.OperatorCodeEnd(build))
    known = vector(build, tflite.ModelStartOperatorCodesVector, entries, offset)
    stored = vector(build, tflite.ModelStartBuffersVector, buffers, offset)
    tflite.ModelStart(build)
    tflite.ModelAddVersion(build, 3)
    tflite.ModelAddOperatorCodes(build, known)
    tflite.ModelAddSubgraphs(build, graphs)
    tflite.ModelAddBuffers(build, stored)
    build.Finish(tflite.ModelEnd(build), b"TFL3")
    return bytes(build.Output())


def dense_model() -> bytes:
    """An int8 FULLY_CONNECTED with a fused RELU, [2, 12] to [2, 5]."""
    build, kinds = flatbuffers.Builder(1024), tflite.TensorType
    buffers = buffers_of(build, [WEIGHTS.tobytes(), BIAS.tobytes()])
    tensors = [
        tensor(build, "image", [2, 12], kinds.INT8, 0, (IN_SCALE, IN_ZERO)),
        tensor(build, "weights", [5, 12], kinds.INT8, 1, (WEIGHT_SCALE, 0)),
        tensor(build, "bias", [5], kinds.INT32, 2, (IN_SCALE * WEIGHT_SCALE, 0)),
        tensor(build, "scores", [2, 5], kinds.INT8, 0, (OUT_SCALE, OUT_ZERO)),
    ]
    tflite.FullyConnectedOptionsStart(build)
    tflite.FullyConnectedOptionsAddFusedActivationFunction(build, tflite.ActivationFunctionType.RELU)
    options = tflite.FullyConnectedOptionsEnd(build)
    dense = operator(build, 0, [0, 1, 2], [3], tflite.BuiltinOptions.FullyConnectedOptions, options)
    return finished(build, tensors, [dense], [(tflite.BuiltinOperator.FULLY_CONNECTED, 4)], buffers, 3)


def tiled_model(sizes: list[int]) -> bytes:
    """The float input and a constant repeated to `sizes` added: a few bytes that ask for many."""
    build, kinds = flatbuffers.Builder(1024), tflite.TensorType
    buffers = buffers_of(build, [np.array(sizes, np.int32).tobytes(), np.float32(1).tobytes()])
    tensors = [
        tensor(build, "x", [1] * len(sizes), kinds.FLOAT32, 0),
        tensor(build, "sizes", [len(sizes)], kinds.INT32, 1),
        tensor(build, "one", [1] * len(sizes), kinds.FLOAT32, 2),
        tensor(build, "tiled", sizes, kinds.FLOAT32, 0),
        tensor(build, "y", sizes, kinds.FLOAT32, 0),
    ]
    tflite.TileOptionsStart(build)
    tile = operator(build, 0, [2, 1], [3], tflite.BuiltinOptions.TileOptions, tflite.TileOptionsEnd(build))
    tflite.AddOptionsStart(build)
    add = operator(build, 1, [0, 3], [4], tflite.BuiltinOptions.AddOptions, tflite.AddOptionsEnd(build))
    codes = [(tflite.BuiltinOperator.TILE, 1), (tflite.BuiltinOperator.ADD, 1)]
    return finished(build, tensors, [tile, add], codes, buffers, 4)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A copy with one to four changes behind the file identifier, or cut off."""
    raw = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, kind = chance.randrange(8, len(raw)), chance.randrange(6)
        if kind == 0:
            del raw[at : at + chance.choice([1, 4, 100])]
        elif kind == 1:
            raw[at:at] = chance.randbytes(chance.choice([1, 4]))
        elif kind == 2:
            raw[at] ^= 1 << chance.randrange(8)
        else:
            raw[at] = chance.choice([0, 1, 2, 127, 128, 255, chance.randrange(256)])
        if len(raw) < 10:
            break
    return bytes(raw)


def run_mutations(count: int, seed: int, folder: pathlib.Path, traced: bool = False) -> Tally:
    """Imports damaged models."""
    chance, tally = random.Random(seed), Tally()
    samples = {"dense": dense_model(), "streaming": streaming_model(), "tiled": tiled_model([2, 3])}
    path = folder / "damaged.tflite"
    for number in range(count):
        kind = chance.choice(sorted(samples))
        data = damaged(samples[kind], chance)
        path.write_bytes(data)
        allowed = allowed_bytes(len(data)) if traced else None
        name = chance.choice(list(IMPORTERS))
        before = len(tally.wrong)
        tally.attempt(kind, str(number), functools.partial(IMPORTERS[name], path), allowed=allowed)
        case = Case("tflite_models:judge", FOLDERS, data, {"importer": name, "traced": traced})
        tally.note(before, case, samples[kind])
    return tally


def judge(data: bytes, settings: dict[str, Any]) -> str:
    """What is wrong with one damaged model."""
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(data)
        file.flush()
        work = functools.partial(IMPORTERS[settings["importer"]], pathlib.Path(file.name))
        return judged(work, allowed=allowed_bytes(len(data)) if settings["traced"] else None)
