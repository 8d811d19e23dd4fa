"""Steps of a recurrence: their weights stay in the weight memory, and what follows a product of one pixel works on all
of its channels at once."""

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

WIDTH, STEPS = 128, 6


def recurrence(width: int = WIDTH, steps: int = STEPS, *, plain: bool = False) -> Graph:
    """h = table(W h + x_t), and then h less the mean of both by a gate that is h itself. `plain`: sums have one scale
    and no biases."""
    build = LayerBuilder(5)
    x = build.input("x", (steps, 1, 1, width), DType.INT16)
    h = build.input("h", (1, 1, 1, width), DType.INT8)
    weights = build.random_constant((width, 1, 1, width), DType.INT8, -128, 127)
    bias = build.random_constant((width,), DType.INT32, *((0, 0) if plain else (-5000, 5000)))
    table = build.random_constant((513,), DType.INT16, -9000, 9000)
    for step in range(steps):
        sums = build.add(
            "CONV2D",
            [h, weights, bias, build.zero_point(DType.INT8, 3), build.zero_point(DType.INT8)],
            pad=[0, 0, 0, 0],
            stride=[1, 1],
            dilation=[1, 1],
            acc_type=DType.INT32,
            local_bound=False,
        )
        part = build.add("SLICE", [x, build.shape([step, 0, 0, 0]), build.shape([1, 1, 1, width])])
        total = build.add(
            "ADD",
            [
                build.rescale(sums, DType.INT32, per_channel=not plain, shift=36, double=False),
                build.rescale(part, DType.INT32, shift=31, double=False),
            ],
        )
        index = build.rescale(total, DType.INT16, shift=33, double=False)
        gate = build.rescale(
            build.add("TABLE", [index, table], dtype=DType.INT32), DType.INT16, shift=37, double=False
        )
        wide = [build.rescale(each, DType.INT32, shift=31, double=False) for each in (h, gate)]
        both = build.add("SUB", wide)
        narrow = build.rescale(both, DType.INT16, shift=31, double=False)
        product = build.add("MUL", [gate, narrow, build.zero_point(DType.INT8)], dtype=DType.INT32)
        kept = build.add(
            "ADD",
            [
                build.rescale(product, DType.INT32, shift=38, double=False),
                build.rescale(gate, DType.INT32, shift=32, double=False),
            ],
        )
        h = build.rescale(kept, DType.INT8, shift=36, double=False)
    build.output(h)
    return build.finish()


@pytest.mark.parametrize("config", ["base", "nano", "base,weight_banks=1"])
@pytest.mark.parametrize("plain", [False, True])
def test_equal_to_golden(config: str, plain: bool) -> None:
    assert_equal_to_golden(recurrence(40, 3, plain=plain), config, check_hazards=True)


def run(steps: int, *, plain: bool = False) -> tuple[int, int]:
    """(cycles, bytes that are read) of a recurrence."""
    graph = recurrence(steps=steps, plain=plain)
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 1))
    return session.stats["cycles"], session.stats["dram_read_bytes"]


def test_a_step_takes_little_more_than_its_products() -> None:
    """Eight tiles of 32 slots; each word of the weights comes once. What lies between two layers is narrow."""
    (few, least), (many, most) = run(2), run(STEPS)
    assert (many - few) / (STEPS - 2) < 8 * 32 + 260
    assert (most - least) / (STEPS - 2) < WIDTH * WIDTH / 4


def test_sums_of_all_tiles_are_a_batch_where_these_have_no_parameters() -> None:
    """Not a micro-program for each of eight tiles, with parameters in between."""
    (few, _), (many, _) = run(2, plain=True), run(STEPS, plain=True)
    assert (many - few) / (STEPS - 2) < 8 * 32 + 180


def test_operands_that_are_read_anyway_need_no_layer() -> None:
    """a (b - c) + c reads c twice, and the difference and what is added need streams: b, a and c have all three."""
    build = LayerBuilder(6)
    a, b, c = (build.input(name, (1, WIDTH), DType.INT16) for name in "abc")
    wide = [build.rescale(each, DType.INT32, shift=31, double=False) for each in (b, c)]
    narrow = build.rescale(build.add("SUB", wide), DType.INT16, shift=31, double=False)
    product = build.add("MUL", [a, narrow, build.zero_point(DType.INT8)], dtype=DType.INT32)
    parts = (build.rescale(product, DType.INT32, shift=46), build.rescale(c, DType.INT32, shift=31))
    build.output(build.rescale(build.add("ADD", list(parts)), DType.INT8, shift=40))
    graph = build.finish()
    session = Session(graph, target="emulator", config="base")
    session.run(feeds(graph, 1))
    assert len(session.stats["layers"]) == 1
    assert_equal_to_golden(graph, "base", check_hazards=True)
