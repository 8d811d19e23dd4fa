"""TFLite networks of every kind of input, judged by LiteRT's reference kernels: floats, integers, the emulator."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from input_kinds import FEATURES, ROWS, SAMPLES, SCALE, Kind, assert_equal, assert_near, kinds
from tflite_operator_cases import Case, Tensor, model_of, reference

from tosaic.compiler.importers import import_model
from tosaic.errors import UnsupportedError

REAL = "float32"


def dense(kind: Kind, x: Tensor, y: Tensor, weight: Tensor) -> Case:
    relu = {"fusedActivationFunction": schema.ActivationFunctionType.RELU}
    return Case(
        "FULLY_CONNECTED", "FullyConnectedOptions", relu | {"keepNumDims": True}, [x, weight, None], [y]
    )


def network(kind: Kind) -> bytes:
    """The TFLite model that `USES` tells of."""
    shape = list(kind.shape)
    x, y = Tensor(shape, kind.dtype), Tensor([*shape[:-1], FEATURES], REAL)
    weight = kind.constant(FEATURES, shape[-1])
    match kind.use:
        case "reals" if len(shape) == 1:
            line = Tensor(shape, REAL, data=kind.constant(*shape))
            steps = [Case("MUL", "MulOptions", {}, [x, line], [Tensor(shape, REAL)])]
        case "reals":
            line = Tensor(weight.shape, REAL, data=weight)
            steps = [dense(kind, x, y, line)]
        case "codes":
            x.scales, x.zero_points = SCALE, kind.zero_point
            y = Tensor(y.shape, kind.dtype, 0.1, kind.zero_point)
            if kind.dtype == "uint8":
                line = Tensor(weight.shape, "uint8", 1 / 127, 128, data=np.rint(weight * 127) + 128)
            else:
                line = Tensor(weight.shape, "int8", 1 / 127, 0, data=np.rint(weight * 127))
            steps = [dense(kind, x, y, line)]
        case "image":
            steps, last = [], shape
            if not kind.channels_last:
                order = Tensor([4], "int32", data=[0, 2, 3, 1])
                last = [shape[i] for i in (0, 2, 3, 1)]
                steps.append(Case("TRANSPOSE", "TransposeOptions", {}, [x, order], [Tensor(last, "uint8")]))
            fields = {"inDataType": schema.TensorType.UINT8, "outDataType": schema.TensorType.FLOAT32}
            given = [] if steps else [x]
            steps.append(Case("CAST", "CastOptions", fields, given, [Tensor(last, REAL)]))
            for op, number in (("SUB", 127.5), ("MUL", 1 / 64)):
                constant = Tensor([1], REAL, data=[number])
                steps.append(Case(op, f"{op.title()}Options", {}, [constant], [Tensor(last, REAL)]))
            window = {"strideH": 1, "strideW": 1, "padding": schema.Padding.SAME}
            window["fusedActivationFunction"] = schema.ActivationFunctionType.RELU
            w = Tensor([4, 3, 3, last[3]], REAL, data=kind.constant(4, 3, 3, last[3]))
            zeros = Tensor([4], REAL, data=np.zeros(4))
            steps.append(Case("CONV_2D", "Conv2DOptions", window, [w, zeros], [Tensor([*last[:3], 4], REAL)]))
        case "numbers":
            numbers = [Tensor([1], kind.dtype, data=[n]) for n in (3, 5)]
            same = Tensor(shape, kind.dtype)
            steps = [
                Case("ADD", "AddOptions", {}, [x, numbers[0]], [same]),
                Case("MAXIMUM", "MaximumMinimumOptions", {}, [numbers[1]], [same]),
            ]
        case "ids":
            table = Tensor([ROWS, FEATURES], REAL, data=kind.constant(ROWS, FEATURES))
            steps = [
                Case("GATHER", "GatherOptions", {}, [table, x], [Tensor([*shape, FEATURES], REAL)]),
                Case("TANH", "", {}, [], [Tensor([*shape, FEATURES], REAL)]),
            ]
        case "mask":
            scores = Tensor(shape, REAL, data=kind.constant(*shape) * 4)
            least = Tensor([1], REAL, data=[-1e4])
            steps = [
                Case("SELECT_V2", "SelectV2Options", {}, [x, scores, least], [Tensor(shape, REAL)]),
                Case("SOFTMAX", "SoftmaxOptions", {"beta": 1.0}, [], [Tensor(shape, REAL)]),
            ]
    return model_of(*steps)


def judged(kind: Kind) -> tuple[bytes, list[np.ndarray]]:
    """The file, and LiteRT's results."""
    data = network(kind)
    return data, [reference(data, [x])[0] for x in kind.samples(SAMPLES)]


@kinds("reals", "image", "ids", "mask")
def test_floats_are_litert_s_and_integers_near(kind: Kind, tmp_path) -> None:
    data, wanted = judged(kind)
    (tmp_path / "net.tflite").write_bytes(data)
    assert_near(import_model(tmp_path / "net.tflite"), kind, wanted)


@kinds("codes", "numbers")
def test_integers_are_litert_s(kind: Kind, tmp_path) -> None:
    if kind.use == "numbers" and kind.dtype in ("int8", "int16"):
        # Tensors of 8 and 16 bits are reals with a scale in TFLite: LiteRT reads scales that are not there.
        (tmp_path / "net.tflite").write_bytes(network(kind))
        with pytest.raises(UnsupportedError, match="use float32, or int8 with a scale$"):
            import_model(tmp_path / "net.tflite")
        return
    data, wanted = judged(kind)
    (tmp_path / "net.tflite").write_bytes(data)
    assert_equal(tmp_path / "net.tflite", kind, wanted)
