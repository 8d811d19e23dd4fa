"""Grades the labs: `python -m pytest examples/course`. COURSE names another folder to grade."""

import os
import pathlib
import runpy
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

import tosaic
from tosaic.boards.area import LutFabric, estimate
from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.hw.config_text import get_config

FOLDER = pathlib.Path(os.environ.get("COURSE", pathlib.Path(__file__).parent))
SIZE = 3
"""Rows and columns of the array of lab 1."""


def lab(number):
    """What a lab's file defines, by name, as it is now."""
    return runpy.run_path(str(FOLDER / f"lab{number}.py"))


def product(left, right):
    """The product of two matrices on an array of the student's processing elements: row i of `left` enters row i of
    the array i cycles late, and columns of `right` likewise."""
    depth = left.shape[1]
    m = Module()
    element = lab(1)["ProcessingElement"]
    grid = [[element() for _ in range(SIZE)] for _ in range(SIZE)]
    for row in range(SIZE):
        for column in range(SIZE):
            m.submodules[f"pe_{row}_{column}"] = grid[row][column]
            if column:
                m.d.comb += grid[row][column].x.eq(grid[row][column - 1].x_out)
            if row:
                m.d.comb += grid[row][column].weight.eq(grid[row - 1][column].weight_out)
    totals = np.zeros((SIZE, SIZE), np.int64)

    async def drive(ctx):
        for cycle in range(depth + 2 * SIZE):
            for row in range(SIZE):
                for column in range(SIZE):
                    step = cycle - row - column
                    ctx.set(grid[row][column].enable, 0 <= step < depth)
                    ctx.set(grid[row][column].first, step == 0)
            for edge in range(SIZE):
                step = cycle - edge
                inside = 0 <= step < depth
                ctx.set(grid[edge][0].x, int(left[edge, step]) if inside else 99)
                ctx.set(grid[0][edge].weight, int(right[step, edge]) if inside else -99)
            await ctx.tick()
        for row in range(SIZE):
            for column in range(SIZE):
                totals[row, column] = ctx.get(grid[row][column].total)

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    return totals


@pytest.mark.parametrize("depth", [1, 4, 17])
def test_lab1_an_array_of_them_multiplies_matrices(depth):
    dice = np.random.default_rng(depth)
    left, right = dice.integers(-128, 128, (SIZE, depth)), dice.integers(-128, 128, (depth, SIZE))
    np.testing.assert_array_equal(product(left, right), left @ right)


def test_lab1_the_largest_products_fit():
    left = np.full((SIZE, 300), -128)
    np.testing.assert_array_equal(product(left, left.T), left @ left.T)


def smooth(image):
    """What lab 2 wants, in NumPy."""
    wide = np.pad(image.astype(np.int64), 1)
    rows, columns = image.shape
    total = sum(
        weight * wide[y : y + rows, x : x + columns]
        for y, line in enumerate(lab(2)["KERNEL"])
        for x, weight in enumerate(line)
    )
    return (total + 8) >> 4


@pytest.mark.parametrize("kind", ["random", "darkest", "brightest"])
def test_lab2_the_layer_smooths_an_image(kind):
    images = {
        "random": np.random.default_rng(1).integers(-128, 128, (16, 16)),
        "darkest": np.full((16, 16), -128),
    }
    image = images.get(kind, np.full((16, 16), 127)).astype(np.int8)
    (found,) = tosaic.run(lab(2)["smoothed"](), {"image": image.reshape(1, 16, 16, 1)}, "golden").values()
    np.testing.assert_array_equal(found.reshape(16, 16), smooth(image))


def test_lab2_it_is_one_layer_of_the_accelerator():
    with tosaic.Session(lab(2)["smoothed"](), "emulator", "nano") as session:
        session.run({"image": np.ones((1, 16, 16, 1), np.int8)}, check=True)
        assert [layer["op"] for layer in session.stats["layers"]] == ["CONV2D"]


def network(name):
    """A network of lab 3."""
    dice, build = np.random.default_rng(3), GraphBuilder(name)
    size, inputs, kernel, outputs = (1, 256, 1, 256) if name == "matrix" else (32, 32, 3, 64)
    x, zero = build.input("x", (1, size, size, inputs), DType.INT8), build.constant([0], DType.INT8)
    weights = build.constant(dice.integers(-128, 128, (outputs, kernel, kernel, inputs)), DType.INT8)
    biases = build.constant(dice.integers(-5000, 5000, outputs), DType.INT32)
    pad = [kernel // 2] * 4
    window: dict[str, Any] = dict(
        pad=pad, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False
    )
    sums = build.add("CONV2D", [x, weights, biases, zero, zero], **window)
    scale = [build.constant([1 << 30], DType.INT32), build.constant([41], DType.INT8)]
    flags: dict[str, Any] = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False)
    zeros = [build.constant([0], DType.INT32), zero]
    options: dict[str, Any] = dict(dtype=DType.INT8, rounding_mode="SINGLE_ROUND")
    build.output(build.add("RESCALE", [sums, *scale, *zeros], **options, **flags))
    return build.finish()


@pytest.mark.parametrize("name", ["matrix", "image"])
def test_lab3_the_network_is_fast_enough_on_a_machine_that_is_small_enough(name):
    chosen = lab(3)
    choice = chosen["CHOICES"][name]
    config, bandwidth = get_config(choice.config), chosen["MEMORY_BANDWIDTH"]
    with tosaic.Session(
        network(name), "emulator", config, batch=choice.batch, memory_bandwidth=bandwidth
    ) as session:
        session.run({each.name: np.ones(each.shape, each.numpy) for each in session.inputs}, check=True)
        cycles = session.stats["cycles"] / choice.batch
    assert cycles <= chosen["GOALS_CYCLES"][name], f"{cycles:,.0f} cycles per sample"
    luts = estimate(config, LutFabric.ECP5).lut
    assert luts <= chosen["MOST_LUTS"], f"{luts:,} LUTs"
