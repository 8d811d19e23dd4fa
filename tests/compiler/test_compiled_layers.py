"""Compiled layers on the emulator equal golden, on every configuration."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate


def assert_equal_to_golden(graph: Graph, config: Config, seed: int = 0, **options: bool) -> None:
    program = compile_graph(graph, config, **options)
    values = feeds(graph, seed)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])


CONVOLUTIONS = {
    "plain 3x3": dict(shape=(1, 7, 9, 16), channels=16, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=-128),
    "odd channels": dict(shape=(1, 6, 5, 13), channels=21, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=7),
    "three channels, stride 2": dict(
        shape=(1, 9, 9, 3), channels=10, kernel=(3, 3), stride=(2, 2), pad=(1, 1, 1, 1), input_zp=3
    ),
    "one channel, tall kernel": dict(shape=(1, 21, 10, 1), channels=20, kernel=(10, 4), pad=(4, 5, 1, 2)),
    "dilated": dict(
        shape=(1, 11, 11, 5), channels=6, kernel=(3, 3), dilation=(2, 3), pad=(2, 2, 3, 3), input_zp=-5
    ),
    "dilated in y": dict(shape=(1, 11, 7, 20), channels=6, kernel=(3, 3), dilation=(3, 1), pad=(2, 2, 1, 1)),
    "batch 3": dict(shape=(3, 5, 4, 8), channels=9, kernel=(2, 2), input_zp=1),
    "pointwise batch": dict(shape=(2, 3, 4, 24), channels=40, kernel=(1, 1), input_zp=9),
    "uneven strides and pads": dict(
        shape=(1, 8, 12, 6), channels=5, kernel=(2, 3), stride=(3, 2), pad=(0, 0, 2, 1)
    ),
    "padded below": dict(shape=(1, 6, 8, 16), channels=8, kernel=(3, 3), pad=(0, 1, 0, 0), input_zp=9),
    "padded above": dict(shape=(1, 6, 8, 16), channels=8, kernel=(3, 3), pad=(1, 0, 0, 0), input_zp=9),
    "weight zero point": dict(shape=(1, 5, 5, 17), channels=17, kernel=(3, 3), pad=(2, 0, 0, 2), weight_zp=0),
    "fully connected": dict(shape=(1, 1, 1, 100), channels=33, kernel=(1, 1), input_zp=-1),
    "one column": dict(shape=(1, 12, 1, 10), channels=7, kernel=(5, 1), pad=(2, 2, 0, 0), input_zp=4),
}
DEPTHWISE = {
    "3x3": dict(shape=(1, 7, 9, 16), channels=1, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=-128),
    "3x3 stride 2": dict(
        shape=(1, 9, 9, 24), channels=1, kernel=(3, 3), stride=(2, 2), pad=(1, 1, 1, 1), input_zp=5
    ),
    "stride 2, uneven pads": dict(
        shape=(1, 8, 8, 20), channels=1, kernel=(3, 3), stride=(2, 2), pad=(0, 1, 0, 1)
    ),
    "odd channels": dict(shape=(1, 6, 5, 37), channels=1, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=2),
    "multiplier 2": dict(shape=(1, 6, 5, 9), channels=2, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=2),
    "multiplier 3 over tiles": dict(shape=(1, 4, 5, 11), channels=3, kernel=(2, 2), input_zp=2),
    "5x5": dict(shape=(1, 8, 8, 19), channels=1, kernel=(5, 5), pad=(2, 2, 2, 2), input_zp=-3),
    "7x7": dict(shape=(1, 9, 8, 19), channels=1, kernel=(7, 7), pad=(3, 3, 3, 3), input_zp=-3),
    "5x5 stride 2": dict(
        shape=(1, 9, 9, 32), channels=1, kernel=(5, 5), stride=(2, 2), pad=(2, 2, 2, 2), input_zp=5
    ),
    "5x3": dict(shape=(1, 8, 8, 19), channels=1, kernel=(5, 3), pad=(2, 2, 1, 1), input_zp=-3),
    "1-D": dict(shape=(1, 30, 1, 40), channels=1, kernel=(10, 1), input_zp=-3),
    "dilated": dict(
        shape=(1, 9, 9, 8), channels=1, kernel=(3, 3), dilation=(2, 2), pad=(2, 2, 2, 2), input_zp=6
    ),
    "batch 2": dict(shape=(2, 5, 5, 16), channels=1, kernel=(3, 3), pad=(1, 1, 1, 1), input_zp=6),
    "1x1": dict(shape=(1, 5, 5, 16), channels=1, kernel=(1, 1), input_zp=6),
}
CASES = [(name, case, False) for name, case in CONVOLUTIONS.items()] + [
    (f"depthwise {name}", case, True) for name, case in DEPTHWISE.items()
]


def convolution_graph(case: dict, depthwise: bool, seed: int, tail: str) -> Graph:
    build = LayerBuilder(seed)
    x = build.input("x", case["shape"], DType.INT8)
    y = build.conv(x, depthwise=depthwise, **{k: v for k, v in case.items() if k != "shape"})
    if tail != "raw":
        y = build.rescale(y, DType.INT8, per_channel=tail == "per channel", output_zp=-4)
        y = build.clamp(y, -100, 90)
    if tail == "residual":
        other = build.input("other", build.graph.tensors[y].shape, DType.INT8)
        y = build.residual(y, other)
    build.output(y)
    return build.finish()


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("name", "case", "depthwise"), CASES, ids=[name for name, _, _ in CASES])
def test_convolution_with_per_channel_rescale(name: str, case: dict, depthwise: bool, config: str) -> None:
    assert_equal_to_golden(convolution_graph(case, depthwise, 1, "per channel"), get_config(config))


@pytest.mark.parametrize("tail", ["raw", "per tensor", "residual"])
@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize(
    ("case", "depthwise"),
    [
        (CONVOLUTIONS["odd channels"], False),
        (CONVOLUTIONS["batch 3"], False),
        (DEPTHWISE["odd channels"], True),
        (DEPTHWISE["3x3 stride 2"], True),
    ],
)
def test_what_follows_a_convolution(case: dict, depthwise: bool, config: str, tail: str) -> None:
    assert_equal_to_golden(convolution_graph(case, depthwise, 2, tail), get_config(config))


@pytest.mark.parametrize("case", [CONVOLUTIONS["plain 3x3"], CONVOLUTIONS["three channels, stride 2"]])
def test_tensors_beyond_the_scratchpad_are_striped(case: dict) -> None:
    """The same network with an activation memory that holds a few rows only."""
    base = get_config("base")
    large = dict(case, shape=(1, 61, 33, case["shape"][3]))
    for kilobytes in (16, 8):
        config = dataclasses.replace(base, am_bytes=kilobytes << 10, am_banks=1)
        assert_equal_to_golden(convolution_graph(large, False, 3, "per channel"), config)
        assert_equal_to_golden(convolution_graph(large, False, 3, "residual"), config)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("op", "shape", "kernel", "stride", "pad"),
    [
        ("AVG_POOL2D", (1, 8, 8, 64), (8, 8), (1, 1), (0, 0, 0, 0)),
        ("AVG_POOL2D", (1, 25, 5, 20), (25, 5), (1, 1), (0, 0, 0, 0)),
        ("AVG_POOL2D", (2, 7, 6, 19), (3, 2), (2, 2), (1, 1, 0, 0)),
        ("AVG_POOL2D", (1, 5, 5, 3), (3, 3), (1, 1), (1, 1, 1, 1)),
        ("MAX_POOL2D", (1, 6, 9, 17), (2, 3), (2, 3), (0, 0, 0, 0)),
        ("MAX_POOL2D", (1, 5, 5, 8), (3, 3), (1, 1), (1, 1, 1, 1)),
    ],
)
def test_pool(op: str, shape: tuple, kernel: tuple, stride: tuple, pad: tuple, config: str) -> None:
    build = LayerBuilder(4)
    x = build.input("x", shape, DType.INT8)
    sizes = {"kernel": list(kernel), "stride": list(stride), "pad": list(pad)}
    if op == "AVG_POOL2D":
        zero_points = [build.zero_point(DType.INT8, -9), build.zero_point(DType.INT8, 11)]
        y = build.add(op, [x, *zero_points], acc_type=DType.INT32, **sizes)
    else:
        y = build.add(op, [x], nan_mode="PROPAGATE", **sizes)
    build.output(y)
    assert_equal_to_golden(build.finish(), get_config(config))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", ["REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reduction(op: str, axis: int, config: str) -> None:
    build = LayerBuilder(5)
    x = build.input("x", (3, 19, 37), DType.INT8)
    wide = build.rescale(x, DType.INT32, input_zp=-3, shift=20)
    extra = {} if op == "REDUCE_SUM" else {"nan_mode": "PROPAGATE"}
    y = build.add(op, [wide], axis=axis, **extra)
    build.output(build.rescale(y, DType.INT8, shift=29))
    assert_equal_to_golden(build.finish(), get_config(config))


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1, 5, 7, 18), (1, 5, 7, 18)),
        ((1, 5, 7, 18), (1, 1, 1, 18)),
        ((1, 5, 7, 18), (1, 5, 7, 1)),
        ((1, 5, 7, 18), (1, 1, 7, 1)),
        ((4, 1, 7), (1, 5, 1)),
        ((1, 1), (1, 1)),
        ((33,), (33,)),
        ((), ()),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "op", ["ADD", "SUB", "MUL", "MAXIMUM", "ARITHMETIC_RIGHT_SHIFT", "GREATER", "BITWISE_XOR"]
)
def test_elementwise_with_broadcast(op: str, a: tuple, b: tuple, config: str) -> None:
    build = LayerBuilder(6)
    x = build.input("a", a, DType.INT32)
    if op == "ARITHMETIC_RIGHT_SHIFT":
        y = build.random_constant(b, DType.INT32, 0, 31)
        out = build.add(op, [x, y], round=True)
    elif op == "MUL":
        out = build.add(op, [x, build.input("b", b, DType.INT32), build.zero_point(DType.INT8, 10)])
    else:
        out = build.add(op, [x, build.input("b", b, DType.INT32)])
    build.output(out)
    assert_equal_to_golden(build.finish(), get_config(config))


def test_unfused_program_gives_the_same() -> None:
    graph = convolution_graph(CONVOLUTIONS["odd channels"], False, 7, "residual")
    assert_equal_to_golden(graph, get_config("base"), optimize=False)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("config", ["nano", "base"])
def test_table(dtype: DType, config: str) -> None:
    build = LayerBuilder(8)
    x = build.input("x", (1, 40), dtype)
    if dtype is DType.INT8:
        table = build.random_constant((256,), DType.INT8, -128, 127)
    else:
        table = build.random_constant((513,), DType.INT16, -16000, 16000)
    build.output(build.add("TABLE", [x, table]))
    assert_equal_to_golden(build.finish(), get_config(config))


@pytest.mark.parametrize("config", ["nano", "base"])
def test_slice_as_view_and_as_copy(config: str) -> None:
    build = LayerBuilder(9)
    x = build.input("x", (1, 9, 9, 12), DType.INT8)
    part = build.add("SLICE", [x, build.shape([0, 1, 2, 0]), build.shape([1, 7, 6, 12])])
    y = build.rescale(build.conv(part, 8, (3, 3), pad=(1, 1, 1, 1), input_zp=3), DType.INT8)
    build.output(y)
    build.output(build.add("SLICE", [x, build.shape([0, 0, 3, 5]), build.shape([1, 9, 2, 6])]))
    assert_equal_to_golden(build.finish(), get_config(config))


@pytest.mark.parametrize("config", ["nano", "base"])
@pytest.mark.parametrize("shape", [(1, 1, 37), (1, 9, 1), (2, 1, 1), (1, 1, 1)], ids=str)
def test_operand_broadcast_over_the_reduced_axis(shape: tuple, config: str) -> None:
    build = LayerBuilder(11)
    x = build.rescale(build.input("x", (2, 9, 37), DType.INT8), DType.INT32, shift=20)
    values = np.random.default_rng(4).integers(-3000, 3000, shape)
    y = build.add("REDUCE_SUM", [build.add("ADD", [x, build.constant(values, DType.INT32)])], axis=1)
    build.output(build.rescale(y, DType.INT8, shift=29))
    assert_equal_to_golden(build.finish(), get_config(config))


@pytest.mark.parametrize("config", ["nano", "base"])
def test_mean_over_two_axes_is_one_layer(config: str) -> None:
    build = LayerBuilder(10)
    x = build.input("x", (1, 7, 5, 37), DType.INT8)
    wide = build.rescale(x, DType.INT32, input_zp=-3, shift=20)
    y = build.add("REDUCE_SUM", [build.add("REDUCE_SUM", [wide], axis=1)], axis=2)
    build.output(build.rescale(y, DType.INT8, shift=31))
    graph = build.finish()
    assert len(compile_graph(graph, get_config(config)).layers) == 1
    assert_equal_to_golden(graph, get_config(config))
