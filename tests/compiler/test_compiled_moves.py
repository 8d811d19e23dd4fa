"""Layout operators on the emulator equal golden: whole, and in blocks where a tensor exceeds the activation memory."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.fuse.moves import blocks, plan_move
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config
from tosaic.sim.emulator import Emulator
from tosaic.sim.golden import evaluate

TYPES = (DType.BOOL, DType.INT8, DType.INT16, DType.INT32)
SMALL_MEMORY = dataclasses.replace(get_config("nano"), am_bytes=1 << 10)


def add_move(build, x, op, parameters):
    """Adds a layout operator to the graph; the result's name."""
    dtype = build.graph.tensors[x].dtype
    match op:
        case "TRANSPOSE":
            return build.add(op, [x], perms=parameters)
        case "REVERSE":
            return build.add(op, [x], axis=parameters)
        case "TILE":
            return build.add(op, [x, build.shape(parameters)])
        case "PAD":
            padding, value = parameters
            fill = build.constant([value], dtype)
            return build.add(op, [x, build.shape(padding), fill])
        case "SLICE":
            start, size = parameters
            return build.add(op, [x, build.shape(start), build.shape(size)])
        case "CONCAT":
            axis, sizes = parameters
            shape = build.graph.tensors[x].shape
            others = [
                build.input(f"x{i}", (*shape[:axis], size, *shape[axis + 1 :]), dtype)
                for i, size in enumerate(sizes)
            ]
            return build.add(op, [x, *others], axis=axis)


def graph_of(op, shape, dtype, parameters):
    build = LayerBuilder(0)
    build.output(add_move(build, build.input("x", shape, dtype), op, parameters))
    return build.finish()


def assert_equal_to_golden(graph, config):
    program, values = compile_graph(graph, config), feeds(graph, 1)
    memory = program.memory()
    for port in program.inputs:
        port.write(memory, values[port.name])
    Emulator(config).run(memory, program.program_address, program.program_bytes)
    wanted = evaluate(graph, values)
    for port in program.outputs:
        np.testing.assert_array_equal(port.read(memory), wanted[port.name])


CASES = {
    "transpose 2": ("TRANSPOSE", (5, 7), [1, 0]),
    "transpose channels last": ("TRANSPOSE", (2, 3, 5, 19), [0, 2, 1, 3]),
    "transpose 6": ("TRANSPOSE", (2, 3, 1, 4, 2, 3), [5, 0, 3, 2, 4, 1]),
    "transpose nothing": ("TRANSPOSE", (2, 3), [0, 1]),
    "reverse 1": ("REVERSE", (21,), 0),
    "reverse middle": ("REVERSE", (3, 5, 17), 1),
    "reverse last of 5": ("REVERSE", (2, 1, 3, 2, 7), 4),
    "tile": ("TILE", (3, 5), [2, 3]),
    "tile 5": ("TILE", (2, 1, 3, 1, 2), [1, 3, 2, 2, 3]),
    "tile of single elements": ("TILE", (2, 3, 1), [1, 1, 21]),
    "tile of rows": ("TILE", (3, 1, 5), [2, 3, 1]),
    "pad": ("PAD", (3, 5), ([1, 2, 0, 3], 1)),
    "pad 4": ("PAD", (1, 4, 5, 6), ([0, 0, 1, 1, 2, 0, 3, 1], 0)),
    "pad nothing": ("PAD", (3, 5), ([0, 0, 0, 0], 1)),
    "slice": ("SLICE", (4, 6, 18), ([1, 0, 3], [2, 6, 14])),
    "slice 5": ("SLICE", (2, 3, 2, 3, 9), ([1, 1, 0, 2, 4], [1, 2, 2, 1, 5])),
    "concat rows": ("CONCAT", (2, 9), (0, [1, 4])),
    "concat last of 3": ("CONCAT", (3, 2, 5), (2, [1, 17])),
    "concat of one": ("CONCAT", (3, 4), (1, [])),
    "concat of five": ("CONCAT", (1, 3), (0, [1, 2, 1, 3])),
}


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("config", ["nano", "base"])
def test_layout_operators(config, name, dtype):
    op, shape, parameters = CASES[name]
    assert_equal_to_golden(graph_of(op, shape, dtype, parameters), get_config(config))


LARGE = {
    "tile of single elements": ("TILE", (700, 1), [1, 3]),
    "transpose": ("TRANSPOSE", (11, 13, 17), [2, 0, 1]),
    "transpose 4": ("TRANSPOSE", (5, 7, 6, 9), [3, 1, 0, 2]),
    "reverse": ("REVERSE", (37, 61), 1),
    "reverse rows": ("REVERSE", (61, 37), 0),
    "tile": ("TILE", (9, 20), [5, 3]),
    "tile of a large one": ("TILE", (40, 50), [1, 2]),
    "pad": ("PAD", (30, 41), ([3, 2, 1, 4], 1)),
    "pad around a small one": ("PAD", (3, 4), ([20, 21, 19, 30], 1)),
    "slice": ("SLICE", (40, 60), ([3, 5], [31, 50])),
    "concat": ("CONCAT", (30, 40), (1, [7, 30])),
    "one long row": ("PAD", (1, 5000), ([0, 0, 7, 8], 1)),
}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", LARGE)
def test_tensors_larger_than_the_activation_memory(name, dtype):
    op, shape, parameters = LARGE[name]
    assert_equal_to_golden(graph_of(op, shape, dtype, parameters), SMALL_MEMORY)


def test_a_constant_is_moved_on_the_accelerator():
    build = LayerBuilder(3)
    x = build.random_constant((3, 5), DType.INT8, -128, 127)
    build.output(build.add("REVERSE", [x], axis=1))
    assert_equal_to_golden(build.finish(), get_config("nano"))


def test_moves_between_other_layers():
    build = LayerBuilder(4)
    x = build.input("x", (1, 6, 6, 8), DType.INT8)
    y = build.rescale(build.conv(x, 8, (3, 3), pad=(1, 1, 1, 1)), DType.INT8)
    y = add_move(build, y, "TRANSPOSE", [0, 2, 1, 3])
    y = build.add("CONCAT", [y, x], axis=3)
    y = add_move(build, y, "PAD", ([0, 0, 1, 1, 0, 2, 0, 0], -7))
    build.output(build.rescale(build.conv(y, 5, (3, 3)), DType.INT8))
    for config in ("nano", "base"):
        assert_equal_to_golden(build.finish(), get_config(config))


def divided(size: int, random: np.random.Generator) -> list[int]:
    """An axis as it is, or as two."""
    first = int(random.choice([each for each in (1, 2, 3, size) if size % each == 0]))
    return [first, size // first] if random.integers(2) else [size]


@pytest.mark.parametrize("seed", range(12))
def test_transposes_and_reshapes_behind_each_other(seed):
    """Up to six of them, each read by the next alone: any two may become one, and that one be joined again."""
    random = np.random.default_rng(seed)
    build = LayerBuilder(seed)
    y = build.input("x", (2, 4, 6, 2), DType.INT8)
    for _ in range(random.integers(3, 7)):
        shape = build.graph.tensors[y].shape
        y = build.add("TRANSPOSE", [y], perms=random.permutation(len(shape)).tolist())
        split = [part for size in build.graph.tensors[y].shape for part in divided(size, random)]
        y = build.add("RESHAPE", [y, build.shape(split[:4] + [math.prod(split[4:])] * (len(split) > 4))])
    build.output(y)
    assert_equal_to_golden(build.finish(), get_config("nano"))


# --- the plan


@given(st.lists(st.integers(1, 6), max_size=4), st.integers(1, 300))
def test_blocks_cover_a_tensor_once_and_contiguously(shape, limit):
    shape, covered = tuple(shape), []
    places = np.arange(math.prod(shape)).reshape(shape)
    for low, counts in blocks(shape, limit):
        box = places[tuple(slice(a, a + n) for a, n in zip(low, counts, strict=True))]
        assert box.size <= limit
        flat = box.reshape(-1)
        np.testing.assert_array_equal(flat, np.arange(flat[0], flat[0] + flat.size))
        covered += flat.tolist()
    assert covered == list(range(math.prod(shape)))


@settings(max_examples=60)
@given(st.data())
def test_parts_cover_the_output_once(data):
    name = data.draw(st.sampled_from(sorted(CASES)))
    op, shape, parameters = CASES[name]
    graph = graph_of(op, shape, DType.INT32, parameters)
    move = plan_move(graph, graph.operators[0])
    values = feeds(graph, 2)
    out = np.full(move.shape, -(1 << 30))
    low = tuple(data.draw(st.integers(0, size - 1)) for size in move.shape)
    counts = tuple(data.draw(st.integers(1, size - a)) for a, size in zip(low, move.shape, strict=True))
    for part in move.parts:
        inner = part.within(low, counts)
        if inner is None:
            continue
        where = tuple(slice(a, a + n) for a, n in zip(inner.low, inner.counts, strict=True))
        assert (out[where] == -(1 << 30)).all()
        if inner.source is None:
            out[where] = inner.fill
            continue
        index = sum(
            (np.arange(n) * s).reshape((-1,) + (1,) * (len(move.shape) - 1 - i))
            for i, (n, s) in enumerate(zip(inner.counts, inner.strides, strict=True))
        )
        out[where] = values[inner.source].reshape(-1)[inner.offset + index]
    box = tuple(slice(a, a + n) for a, n in zip(low, counts, strict=True))
    wanted = evaluate(graph, values)[graph.outputs[0]].reshape(move.shape)
    np.testing.assert_array_equal(out[box], wanted[box])
