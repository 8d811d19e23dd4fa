"""ONNX networks of every kind of input, judged by ONNX Runtime: floats, integers, the emulator."""

import numpy as np
import onnx
from input_kinds import FEATURES, ROWS, SAMPLES, SCALE, Kind, assert_equal, assert_near, kinds
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from random_onnx import run_onnx_runtime

from tosaic.compiler.importers.onnx_models import import_onnx


def network(kind: Kind):
    """The ONNX model that `USES` tells of."""
    nodes, constants = [], {}

    def constant(value) -> str:
        name = f"c{len(constants)}"
        constants[name] = np.asarray(value)
        return name

    def node(op: str, *inputs: str, **attributes) -> str:
        nodes.append(helper.make_node(op, inputs, [f"{op}_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def product(x: str) -> str:
        return node("MatMul", x, constant(kind.constant(kind.shape[-1], FEATURES)))

    def real(x: str) -> str:
        return node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)))

    match kind.use:
        case "reals" if len(kind.shape) == 1:
            y = node("Tanh", node("Mul", "x", constant(kind.constant(*kind.shape))))
        case "reals":
            y = node("Tanh", product("x"))
        case "image":
            x = node("Transpose", "x", perm=[0, 3, 1, 2]) if kind.channels_last else "x"
            x = node("Sub", real(x), constant(np.float32(127.5)))
            x = node("Div", x, constant(np.float32(64)))
            weight = kind.constant(4, 1 if kind.shape[-1] == 1 else 3, 3, 3)
            y = node("Relu", node("Conv", x, constant(weight), pads=[1, 1, 1, 1]))
        case "codes":
            zero = np.dtype(kind.dtype).type(kind.zero_point)
            own = constant(np.float32(SCALE)), constant(zero)
            x = node("Relu", product(node("DequantizeLinear", "x", *own)))
            y = node("QuantizeLinear", x, constant(np.float32(0.1)), constant(zero))
        case "numbers":
            three, five = (constant(np.dtype(kind.dtype).type(n)) for n in (3, 5))
            y = node("Max", node("Add", "x", three), node("Sub", five, "x"))
        case "ids":
            rows = node("Tanh", node("Gather", constant(kind.constant(ROWS, FEATURES)), "x"))
            y = node("MatMul", rows, constant(kind.constant(FEATURES, 3)))
        case "mask":
            scores = constant(kind.constant(*kind.shape) * 4)
            y = node("Softmax", node("Where", "x", scores, constant(np.float32(-1e4))), axis=-1)
    graph = helper.make_graph(
        nodes,
        kind.use,
        [
            helper.make_tensor_value_info(
                "x", helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype)), kind.shape
            )
        ],
        [helper.make_empty_tensor_value_info(y)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def judged(kind: Kind, model) -> list[np.ndarray]:
    """The judge's results: ONNX Runtime's; it has no Max of int16, ONNX's own evaluator has."""
    if kind.use == "numbers" and kind.dtype == "int16":
        return [ReferenceEvaluator(model).run(None, {"x": x})[0] for x in kind.samples(SAMPLES)]
    return [run_onnx_runtime(model, {"x": x})[0] for x in kind.samples(SAMPLES)]


@kinds("reals", "image", "ids", "mask")
def test_floats_are_onnx_runtime_s_and_integers_near(kind: Kind) -> None:
    model = network(kind)
    assert_near(import_onnx(model), kind, judged(kind, model))


@kinds("codes", "numbers")
def test_integers_are_onnx_runtime_s(kind: Kind, tmp_path) -> None:
    """int16 codes may be a step off: ONNX Runtime computes between the pairs in floats."""
    model = network(kind)
    onnx.save(model, tmp_path / "net.onnx")
    assert_equal(tmp_path / "net.onnx", kind, judged(kind, model), most=int(kind.name == "int16 around 0"))
