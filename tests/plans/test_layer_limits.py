"""Limits that decide over the form of one layer: each is met, and just missed."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.external import ExternalMemory, PlacedPort
from tosaic.compiler.place.placement import PARAMETERS, PartOutside, Placement, Sent
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.place.strides import dense_strides, operand_span, operand_strides
from tosaic.compiler.search import Choices, plans_of, ranked, task_of
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.work import ArrayBody, LayerWork
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def planner(*shapes: tuple[int, ...], config=BASE) -> GraphPlanner:
    """Returns the planner of a graph that adds int32 tensors "x" and "y" of these shapes."""
    build = LayerBuilder(1)
    names = [build.input(name, shape, DType.INT32) for name, shape in zip("xy", shapes, strict=False)]
    build.output(build.add("ADD", [names[0], names[-1]]))
    memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes)
    graph = legalize(build.finish(), config)
    return GraphPlanner(graph, set(graph.tensors), PlanContext(config, memories, True))


def works(graph: Graph, config: str = "base") -> list[LayerWork]:
    """The plan's layers, of which none runs as a cascade."""
    choices = Choices(get_config(config), cascades=False)
    steps = next(plans_of(task_of(graph, choices))).main.steps
    return [step.work for step in steps if isinstance(step.work, LayerWork)]


# --- the form of a convolution


@pytest.mark.parametrize(
    "shape, channels, rows",
    [
        # Of 16 rows of the array, unless the layer cares where those of the image end: 49 of four pixels.
        ((14, 14, 32), 16, (49, 4)),
        # Pixels that share vectors, and an image of one column.
        ((14, 14, 4), 8, (14, 7)),
        ((14, 1, 32), 16, (14, 1)),
    ],
)
def test_rows_of_boxes_end_where_a_tile_of_pixels_is_full(
    shape: tuple[int, int, int], channels: int, rows: tuple[int, int]
) -> None:
    build = LayerBuilder(1)
    x = build.add("REVERSE", [build.input("x", (1, *shape), DType.INT8)], axis=1)
    build.output(build.rescale(build.conv(x, channels, (1, 1)), DType.INT8))
    work = works(build.finish())[-1]
    assert isinstance(work.body, ArrayBody)
    found = work.body.plan.window_of_boxes(BASE)
    assert (found.oh, found.ow) == rows


@pytest.mark.parametrize(
    "channels, depthwise, arriving, rows",
    [
        # 256 x 256 weights are half of the weight memory; results and images have 56 KiB, and pieces 4 KiB or more.
        (256, False, False, 4),
        (272, False, False, 5),
        (256, True, False, 10),
        (256, False, True, 4),
        (272, False, True, 14),
        (256, True, True, 7),
    ],
)
def test_a_layer_is_cut_for_what_comes_and_leaves(
    channels: int, depthwise: bool, arriving: bool, rows: int
) -> None:
    """Its result leaves box by box, and its image, unless it is there already, comes so. Weights that do not stay come
    again for each box, and a depthwise layer fills the delay line anew: there are fewer boxes."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 28, 8, 256), DType.INT8)
    if not arriving:
        x = build.add("REVERSE", [x], axis=1)
    y = (
        build.conv(x, 1, (3, 3), pad=(1,) * 4, depthwise=True)
        if depthwise
        else build.conv(x, channels, (1, 1))
    )
    build.output(build.rescale(y, DType.INT8))
    work = works(build.finish())[-1]
    assert isinstance(work.body, ArrayBody) and not work.buffers
    assert (work.body.extent.rows, bool(work.arrivals), work.result is not None) == (rows, arriving, True)


@pytest.mark.parametrize(
    "channels, known, columns", [(0, True, 2), (64, True, 2), (256, True, 0), (256, False, 2)]
)
def test_the_next_weights_come_behind_an_image(channels: int, known: bool, columns: int) -> None:
    """An image of three channels is multiplied by im2col, two columns at a time, unless LOAD would then be late with
    the weights of the next convolution, if these are known, wherever that is."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 16, 16, 3), DType.INT8)
    y = build.rescale(build.conv(x, 16, (3, 3), pad=(1,) * 4), DType.INT8)
    if channels:
        y = build.conv(build.add("REVERSE", [y], axis=1), channels, (1, 1))
        if not known:
            build.graph.operators[-1].inputs[1] = build.input("w", (channels, 1, 1, 16), DType.INT8)
        y = build.rescale(y, DType.INT8)
    build.output(y)
    first = works(build.finish())[0]
    assert isinstance(first.body, ArrayBody)
    assert first.body.plan.strips is (columns > 0)


# --- parameters and weights


@pytest.mark.parametrize("tiles, whole", [(36, True), (37, False)])
def test_parameters_come_in_as_a_whole_up_to_a_quarter_of_the_memory(tiles: int, whole: bool) -> None:
    """112 bytes for 16 channels, of 16 KiB; else those of some channels come with each box."""
    build = LayerBuilder(1)
    y = build.conv(build.input("x", (1, 2, 2, 16), DType.INT8), 16 * tiles, (1, 1))
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    (work,) = works(build.finish(), "base,am_bytes=16K")
    assert (work.params.tile_bytes, work.params.source is None) == (112, whole)
    assert [copy.size_bytes for copy in work.preloads] == ([112 * tiles] if whole else [])
    assert (PARAMETERS in work.buffers) != whole


@pytest.mark.parametrize(
    "channels, bias, per_channel, tiles, bias_bytes",
    [
        (0, 0, True, 2, 0),
        (20, 5000, False, 2, 2),
        (20, 1 << 20, False, 2, 4),
        (20, 5000, True, 2, 2),
        (8, 5000, True, 1, 2),
    ],
)
def test_parameters_of_a_layer(
    channels: int, bias: int, per_channel: bool, tiles: int, bias_bytes: int
) -> None:
    """The channels of a convolution have biases, and scales of 5 bytes; two pixels that share a vector share these as
    well. With 0 channels the layer is no convolution."""
    build = LayerBuilder(1)
    if channels:
        x = build.input("x", (1, 4, 4, 16), DType.INT8)
        y = build.conv(x, channels, (1, 1))
        build.graph.tensors[build.graph.operators[-1].inputs[2]].data[:] = bias
    else:
        y = build.input("x", (1, 4, 4, 20), DType.INT32)
    build.output(build.rescale(y, DType.INT8, per_channel=per_channel))
    (work,) = works(build.finish())
    tile_bytes = 16 * (bias_bytes + 5 * per_channel)
    shown = (work.params.tile_bytes, work.params.bias_bytes, work.params.scale)
    assert shown == (tile_bytes, bias_bytes, per_channel)
    assert tiles * tile_bytes in [copy.size_bytes for copy in work.preloads]


def test_a_product_has_no_biases() -> None:
    build = LayerBuilder(1)
    x, weights = (
        build.input("x", (1, 4, 16), DType.INT8),
        build.random_constant((1, 16, 20), DType.INT8, -9, 9),
    )
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    build.output(build.rescale(build.add("MATMUL", [x, weights, *zeros]), DType.INT8, per_channel=True))
    (work,) = works(build.finish())
    assert (work.params.tile_bytes, work.params.bias_bytes, work.params.scale) == (80, 0, True)


@pytest.mark.parametrize(
    "machine, starts",
    [
        ("base,weight_banks=1", [0, 301, 602]),
        ("base,weight_banks=2", [0, 512, 1024]),
        ("base,weight_banks=4", [0, 512, 1024]),
        ("small,weight_banks=2", [0, 320, 640]),
    ],
)
def test_weights_begin_at_whole_steps_where_rows_may_be_divided(machine: str, starts: list[int]) -> None:
    ring = Emitter(get_config(machine), ExternalMemory()).ring
    blobs = [Address(Region.CONSTANTS, 4096 * number) for number in range(3)]
    assert [ring.place(blob, 301) for blob in blobs] == [(start, True) for start in starts]


# --- where results are


@pytest.mark.parametrize(
    "cycles, order",
    [
        ([1000], [0]),
        ([1000, 900], [0, 1]),
        ([1000, 899], [1, 0]),
        ([1000, 899, 810, 800], [3, 1, 0, 2]),
        ([1000, 2000, 100], [2, 0, 1]),
    ],
)
def test_plans_that_are_clearly_better_come_first(cycles: list[int], order: list[int]) -> None:
    """A plan with less residency comes first if it takes less than 0.9 of the cycles of the best one before it."""
    build = LayerBuilder(1)
    build.output(build.add("ABS", [build.input("x", (1, 16), DType.INT32)]))
    plan = next(plans_of(task_of(build.finish(), Choices(BASE))))
    plans = [dataclasses.replace(plan, cycles=count) for count in cycles]
    assert [cycles.index(each.cycles) for each in ranked(plans)] == order


@pytest.mark.parametrize("less_bytes, released", [(0, False), (16, True)])
def test_buffers_of_earlier_layers_make_room_for_what_streams(less_bytes: int, released: bool) -> None:
    """A quarter of the memory is left for boxes of operands that are outside."""
    config = get_config("base,am_banks=1")
    plan = planner((1, config.am_bytes // 16), (1, config.am_bytes // 16), config=config)
    placer, arena, result = plan.placer, plan.placer.arena, plan.layers[0].output
    for name in ("x", "y"):
        placer.external(name)
    earlier = arena.allocate(64)
    assert earlier is not None
    arena.allocate(config.am_bytes - 64 - 2 * config.am_bytes // 4 + less_bytes)
    placer.pending_free.append([earlier])
    placer.place_output(result, ["x", "y"])
    assert placer.pending_free == ([] if released else [[earlier]])
    assert placer.placements[result].resident != released


def test_a_tensor_that_has_a_home_outside_is_put_there() -> None:
    plan, home = planner((1, 16), (1, 16)), Address(Region.DATA, 4096)
    placer = plan.placer
    placer.settle({"x": home}, {})
    assert (placer.external("x").address, placer.ports["x"].address) == (home, home)
    assert placer.external("y").address != home


def test_a_result_of_which_a_part_is_wanted_outside_must_be_resident() -> None:
    placer, part = planner((1, 16)).placer, PartOutside(8, 40)
    placer.settle({"x": Address(Region.DATA, 4096)}, {"x": part})
    with pytest.raises(OutOfMemory, match="is not as a whole outside, and it is not resident"):
        placer.external("x")
    placer.placements["x"] = Placement(Address(Region.ACTIVATION, 64), 64)
    assert placer.sent("x") == Sent(
        Address(Region.ACTIVATION, 64), Address(Region.DATA, 4096), 40, 8, part.rows
    )


def test_the_port_of_a_result() -> None:
    """Its own place, that of what it is another name of, that of another name, or that of a copy of a constant."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 16), DType.INT32)
    y = build.add("ABS", [x])
    names = [y, *(build.add("RESHAPE", [y, build.shape(shape)]) for shape in ((16,), (4, 4), (2, 8)))]
    constant = build.constant(np.arange(5), DType.INT32)
    for name in names:
        build.output(name)
    placer = GraphPlanner(
        build.finish(), set(names), PlanContext(BASE, Memories(Arena(BASE.am_bytes, 16), BASE.am_bytes), True)
    ).placer
    homes = {name: Address(Region.DATA, 4096 * number) for number, name in enumerate(names, 1)}
    for name in names[:2]:
        tensor = placer.tensors[name]
        placer.ports[name] = PlacedPort(tensor, homes[name], 64)
    found = [placer.output_port(name) for name in names]
    assert [port.address for port in found] == [homes[names[place]] for place in (0, 1, 0, 0)]
    assert [port.tensor.name for port in found] == names
    apart = placer.show_apart(names[2])
    assert placer.output_port(names[2]).address == apart.address
    del placer.ports[names[0]]
    assert placer.output_port(names[3]).address == homes[names[1]]
    external = placer.memories.external
    before = external.constants_bytes
    assert placer.output_port(constant).address == Address(Region.CONSTANTS, before)
    assert external.constants_bytes > before


@pytest.mark.parametrize(
    "shape, target, size, dense, broadcast",
    [
        ((2, 3, 4), (2, 3, 4), 1, [12, 4, 1], [12, 4, 1]),
        ((2, 1, 4), (2, 3, 4), 2, [8, 8, 2], [8, 0, 2]),
        ((1, 3, 1), (1, 3, 5), 4, [12, 4, 4], [12, 4, 0]),
        ((), (), 4, [], []),
    ],
)
def test_strides(shape: tuple, target: tuple, size: int, dense: list[int], broadcast: list[int]) -> None:
    assert dense_strides(shape, size) == dense
    assert operand_strides(shape, target, size) == broadcast


@pytest.mark.parametrize(
    "shape, low, counts, span",
    [
        ((2, 3, 4), (1, 0, 0), (1, 3, 4), (48, 96)),
        ((2, 3, 4), (1, 1, 2), (1, 1, 2), (72, 80)),
        ((2, 1, 4), (1, 2, 0), (1, 1, 4), (16, 32)),
        ((1, 1, 1), (1, 2, 3), (1, 1, 1), (0, 4)),
    ],
)
def test_bytes_of_an_operand_that_a_box_needs(shape: tuple, low: tuple, counts: tuple, span: tuple) -> None:
    assert operand_span(shape, low, counts, 4) == span
