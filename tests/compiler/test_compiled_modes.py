"""Operators and types that networks rarely use, compiled, on the emulator, equal golden."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

INTEGERS = (DType.INT8, DType.INT16, DType.INT32)
CONFIGS = ("nano", "base")


def assert_equal_to_golden(graph, config, values=None):
    config = get_config(config) if isinstance(config, str) else config
    program = compile_graph(graph, config)
    values = feeds(graph, 1) if values is None else values
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(program.config).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])


def extremes(dtype, shape, seed):
    """Random values of a type with its borders among them."""
    values = np.random.default_rng(seed).integers(dtype.min, dtype.max, shape, endpoint=True)
    flat = values.reshape(-1)
    flat[:5] = [dtype.min, dtype.max, 0, -1, 1][: flat.size]
    return values.astype(dtype.numpy)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", [DType.BOOL, *INTEGERS], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shapes", [((3, 21),) * 3, ((3, 1), (1, 21), (3, 21)), ((1, 1), (3, 21), (1, 1))])
def test_select(config, dtype, shapes):
    build = LayerBuilder(0)
    condition = build.input("c", shapes[0], DType.BOOL)
    true, false = build.input("t", shapes[1], dtype), build.input("f", shapes[2], dtype)
    build.output(build.add("SELECT", [condition, true, false]))
    values = feeds(build.graph, 3)
    if dtype is not DType.BOOL:
        values |= {name: extremes(dtype, s, 5) for name, s in zip("tf", shapes[1:], strict=True)}
    assert_equal_to_golden(build.finish(), config, values)


@pytest.mark.parametrize("config", CONFIGS)
def test_select_of_computed_values_in_one_layer(config):
    build = LayerBuilder(1)
    x, y = build.input("x", (4, 19), DType.INT32), build.input("y", (4, 19), DType.INT32)
    larger = build.add("SELECT", [build.add("GREATER", [x, y]), x, build.add("ABS", [y])])
    build.output(build.add("BITWISE_XOR", [larger, y]))
    assert_equal_to_golden(build.finish(), config)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op", ["LOGICAL_LEFT_SHIFT", "LOGICAL_RIGHT_SHIFT"])
def test_logical_shifts_by_every_amount(config, dtype, op):
    build = LayerBuilder(2)
    shape = (dtype.bits, 9)
    x, amount = build.input("x", shape, dtype), build.input("s", shape, dtype)
    shifted = build.add(op, [x, amount])
    build.output(shifted)
    # What reads the result before it is stored must see it in the type's width.
    build.output(build.add("CAST", [shifted], dtype=DType.INT32 if dtype is not DType.INT32 else DType.INT8))
    amounts = np.repeat(np.arange(dtype.bits), 9).reshape(shape).astype(dtype.numpy)
    assert_equal_to_golden(build.finish(), config, {"x": extremes(dtype, shape, 4), "s": amounts})


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(
    "shape, axis",
    [((37,), 0), ((5, 21), 0), ((5, 21), 1), ((2, 3, 4, 18), 2), ((2, 1, 3, 2, 5), 4), ((1, 9), 0)],
)
def test_argmax(config, dtype, shape, axis):
    build = LayerBuilder(0)
    build.output(build.add("ARGMAX", [build.input("x", shape, dtype)], axis=axis))
    graph = build.finish()
    assert_equal_to_golden(graph, config, {"x": extremes(dtype, shape, 6)})
    # Equal values: the first one counts.
    assert_equal_to_golden(graph, config, {"x": np.full(shape, dtype.min, dtype.numpy)})
    assert_equal_to_golden(graph, config, {"x": extremes(dtype, shape, 7) // 100})


@pytest.mark.parametrize("config", CONFIGS)
def test_argmax_with_operators_behind_it(config):
    build = LayerBuilder(0)
    index = build.add("ARGMAX", [build.input("x", (6, 7, 20), DType.INT8)], axis=1)
    build.output(build.add("ADD", [index, build.input("y", (6, 20), DType.INT32)]))
    assert_equal_to_golden(build.finish(), config)


@pytest.mark.parametrize("op", ["MAX_POOL2D", "AVG_POOL2D"])
def test_a_pool_of_a_constant_of_one_value(op):
    build = LayerBuilder(0)
    x = build.constant(np.full((1, 4, 5, 3), 7), DType.INT8)
    zero = build.zero_point(DType.INT8)
    attributes = dict(kernel=[2, 2], stride=[1, 1], pad=[0, 0, 0, 0])
    if op == "MAX_POOL2D":
        build.output(build.add(op, [x], **attributes, nan_mode="PROPAGATE"))
    else:
        build.output(build.add(op, [x, zero, zero], **attributes, acc_type=DType.INT32))
    assert_equal_to_golden(build.finish(), "base")


@pytest.mark.parametrize("config", CONFIGS)
def test_int4_weights(config):
    build = LayerBuilder(5)
    x = build.input("x", (1, 5, 6, 7), DType.INT8)
    parameters = [
        build.random_constant((9, 3, 3, 7), DType.INT4, -7, 7),
        build.random_constant((9,), DType.INT32, -500, 500),
        build.zero_point(DType.INT8, -3),
        build.zero_point(DType.INT4, 0),
    ]
    attributes = dict(
        pad=[1, 1, 1, 1], stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False
    )
    build.output(build.add("CONV2D", [x, *parameters], **attributes))
    assert_equal_to_golden(build.finish(), config)


SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 10)


@pytest.mark.long
@pytest.mark.parametrize("op", ["ADD", "MINIMUM"])
@pytest.mark.parametrize(
    "shapes",
    [
        ((40, 50), (1, 50)),
        ((40, 1), (40, 50)),
        ((1, 300), (300, 1)),
        ((7, 1, 30, 1), (1, 11, 1, 3)),
        ((1, 1), (1, 900)),
        ((3, 1, 200), (3, 5, 1)),
    ],
)
def test_broadcasting_beyond_the_activation_memory(op, shapes):
    build = LayerBuilder(0)
    x, y = (build.input(name, shape, DType.INT32) for name, shape in zip("xy", shapes, strict=True))
    build.output(build.add(op, [x, y]))
    assert_equal_to_golden(build.finish(), SMALL_MEMORY)


def test_one_tensor_broadcast_two_ways_beyond_the_activation_memory():
    build = LayerBuilder(0)
    x = build.input("x", (60, 1), DType.INT16)
    across = build.add("RESHAPE", [x, build.shape([1, 60])])
    build.output(
        build.add(
            "MAXIMUM",
            [build.add("CAST", [x], dtype=DType.INT32), build.add("CAST", [across], dtype=DType.INT32)],
        )
    )
    assert_equal_to_golden(build.finish(), SMALL_MEMORY)
    build = LayerBuilder(0)
    x = build.input("x", (60, 1), DType.INT32)
    build.output(build.add("MAXIMUM", [x, build.add("RESHAPE", [x, build.shape([1, 60])])]))
    assert_equal_to_golden(build.finish(), SMALL_MEMORY)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("other", [(1, 1, 37), (1, 5, 1), (3, 1, 37), (1, 1, 1), (3, 5, 37)])
def test_per_channel_rescale_of_a_broadcast_sum(config, other):
    build = LayerBuilder(7)
    x, y = build.input("x", (3, 5, 37), DType.INT32), build.input("y", other, DType.INT32)
    build.output(build.rescale(build.add("ADD", [x, y]), DType.INT8, per_channel=True, shift=44))
    assert_equal_to_golden(build.finish(), config)
