"""`tosaic check` of a float model: what will run once it is quantized."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.importers import import_model
from tosaic.compiler.ir import DType, GraphBuilder, write_tosa
from tosaic.driver.forecast import stand_ins
from tosaic.driver.limits import limit
from tosaic.driver.quantize import quantize_graph
from tosaic.driver.session import Session
from tosaic.sim.result import Slice

STAND_INS = (
    "after `tosaic quantize`, with one sample of random numbers in the place of yours (data changes cycles):"
)


@pytest.fixture
def network(here):
    """net.onnx: a strided convolution, a ReLU, and a matrix product."""
    generator = np.random.default_rng(3)
    weights = {
        "w": generator.normal(size=(16, 3, 3, 3)).astype(np.float32) / 4,
        "d": generator.normal(size=(256, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "stem/conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], "stem/relu"),
        helper.make_node("Flatten", ["r"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "d"], ["y"], "dense"),
    ]
    ports = (("x", [1, 3, 8, 8]), ("y", [1, 4]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports)
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    return here / "net.onnx"


def told(outcome) -> list[str]:
    """The lines about the quantized model, with single spaces."""
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    return lines[lines.index(STAND_INS) + 1 :]


def test_what_will_run(tosaic, network, here):
    before = sorted(here.iterdir())
    outcome = tosaic("check", "net.onnx")
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(here.iterdir()) == before
    first, *layers = told(outcome)
    graph = import_model(network)
    found = quantize_graph(graph, {"x": stand_ins(graph)["x"][None]})
    session = Session(found.graph, "emulator")
    session.run({"x": np.zeros((1, 3, 8, 8), np.int8)})
    stats, memory_bytes = session.stats, session.program.memory_bytes
    assert first == (
        f"ok 3 layers run on base: {stats['cycles']:,} predicted cycles, utilization {stats['mac_utilization']:.1%}, "
        f"{memory_bytes:,} bytes of memory"
    )
    assert outcome.out.splitlines()[0] == (
        f"yes, once quantized: 3 layers run on base, {stats['cycles']:,} predicted cycles; next: "
        "tosaic quantize net.onnx -c CALIB.npz -o OUT.tosa"
    )
    cycles = {f"{layer['name']} ({layer['op']})": layer["cycles"] for layer in stats["layers"]}
    assert list(cycles) == [
        "stem/conv … stem/relu (CONV2D)",
        "stem/relu (TRANSPOSE)",
        "dense (CONV2D)",
    ]
    dearest = sorted(cycles.items(), key=lambda item: -item[1])
    assert [line.split(" cycles")[0] for line in layers] == [f"{name} {count:,}" for name, count in dearest]
    assert all(line.endswith(" busy") for line in layers)


def test_no_layer_does_more_than_the_array_can(tosaic, here):
    """The next layer's products begin while a layer writes its last results: they were 100.1 % of its cycles'."""
    generator = np.random.default_rng(0)
    nodes, constants = [], []
    for number, shape in enumerate([(16, 256), (256, 16), (16, 256)]):
        weight = generator.normal(size=shape).astype(np.float32) / 5
        constants.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(
            helper.make_node("MatMul", [f"y{number}", f"w{number}"], [f"m{number}"], f"dense{number}")
        )
        nodes.append(helper.make_node("Relu", [f"m{number}"], [f"y{number + 1}"], f"relu{number}"))
    ends = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("y0", [256, 16]), ("y3", [256, 256]))
    )
    x, y = ends
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "wide.onnx"
    )
    _, *layers = told(tosaic("check", "wide.onnx"))
    shares = [float(line.split("utilization ")[1].split("%")[0]) for line in layers]
    assert max(shares) == 100.0


def test_another_configuration(tosaic, network):
    assert told(tosaic("check", "net.onnx", "--config", "nano"))[0].startswith("ok 3 layers run on nano: ")


def test_without(tosaic, network):
    outcome = tosaic("check", "net.onnx", "--no-quantized")
    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == "no: 5 of 8 operators of net.onnx do not run on base"
    assert outcome.out.splitlines()[-1] == "3 of 8 operators run on base"


def test_nothing_of_integers(tosaic, here):
    out = tosaic("check", "tiny.tosa").out
    assert STAND_INS not in out
    assert out.startswith("yes: all 10 operators of tiny.tosa run on base\n")


def test_no_integer_form(tosaic, here):
    build = GraphBuilder()
    x, bias = build.input("x", (1, 4, 4, 2), DType.FP32), build.input("bias", (3,), DType.FP32)
    weights = build.constant(np.ones((3, 1, 1, 2), np.float32), DType.FP32)
    zero = build.constant(np.zeros(1, np.float32), DType.FP32)
    sizes = dict(pad=[0, 0, 0, 0], stride=[1, 1], dilation=[1, 1], acc_type=DType.FP32)
    build.output(build.add("CONV2D", [x, weights, bias, zero, zero], dtype=DType.FP32, **sizes))
    write_tosa(build.finish(), here / "biased.tosa")
    outcome = tosaic("check", "biased.tosa")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("no: 1 of 1 operators of biased.tosa do not run on base\n")
    assert told(outcome) == [
        "NO CONV2D_2 (tensor 'bias' fp32[3]): a bias computed at run time has no integer form; make it a constant"
    ]


def test_what_limits_a_layer():
    """Units that overlap count once; those that are about as busy are told together."""
    pieces = [
        Slice("LOAD", "weights", 0, 60),
        Slice("LOAD", "pixels", 40, 100),
        Slice("ARRAY", "multiplies", 4, 200),
        Slice("VECTOR", "drains", 110, 150),
    ]
    assert (
        str(limit(pieces, 0, 100)) == "reading external memory and multiplications: LOAD 100%, ARRAY 96% busy"
    )
    assert str(limit(pieces, 100, 150)) == "multiplications: ARRAY 100% busy"
    assert str(limit(pieces[:2], 0, 400)) == "units wait for each other: LOAD 25% busy"
    assert str(limit([], 0, 10)).startswith("units wait for each other: ")


def test_stand_ins():
    """Indices are zeros, which every table has."""
    build = GraphBuilder()
    x, i = build.input("x", (1, 3, 2), DType.FP32), build.input("i", (1, 2), DType.INT32)
    build.output(build.add("GATHER", [x, i]))
    values = stand_ins(build.finish())
    assert values["i"].tolist() == [[0, 0]]
    assert (values["x"].dtype, values["x"].shape, np.unique(values["x"]).size) == (np.float32, (1, 3, 2), 6)
