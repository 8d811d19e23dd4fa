"""Limits that decide over the form of one layer: each is met, and just missed."""

from types import SimpleNamespace

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from window_shapes import window

import tosaic.compiler.tile.convolution as convolution
import tosaic.compiler.tile.im2col as im2col
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.graph_emission import _by_use, _copy_all
from tosaic.compiler.fuse.translate import PerChannel, RunTimeScales
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.params import ParamBlock
from tosaic.compiler.place.placement import Copy, PartOutside, Placement, Sent
from tosaic.compiler.place.placer import Memories, PlacedPort
from tosaic.compiler.place.strides import dense_strides, operand_span, operand_strides
from tosaic.compiler.place.weights import Blob
from tosaic.compiler.search import ranked
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.layer_plan import LayerPass
from tosaic.compiler.tile.work import ArrayBody, CopyThrough, Parameters, TablePlace
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config

BASE = get_config("base")


def planner(*shapes: tuple[int, ...], config=BASE) -> GraphPlanner:
    """Of a graph that adds int32 tensors "x" and "y" of these shapes up, one after the other."""
    build = LayerBuilder(1)
    names = [build.input(name, shape, DType.INT32) for name, shape in zip("xy", shapes, strict=False)]
    build.output(build.add("ADD", [names[0], names[-1]]))
    memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes)
    graph = legalize(build.finish(), config)
    return GraphPlanner(graph, set(graph.tensors), PlanContext(config, memories, True))


# --- the form of a convolution


@pytest.mark.parametrize("dtype, refused", [(DType.INT8, False), (DType.INT16, True)])
def test_the_array_multiplies_bytes(dtype: DType, refused: bool) -> None:
    """An image of int16 comes this far only if its byte planes' sums do not fit."""
    tensors = {"x": SimpleNamespace(dtype=dtype), "w": SimpleNamespace(dtype=DType.INT8)}
    layer, operator = SimpleNamespace(program=SimpleNamespace(loads=[])), SimpleNamespace(inputs=["x", "w"])
    if refused:
        with pytest.raises(UnsupportedError, match="the array multiplies bytes, and the sums of"):
            convolution._check_operands(tensors, layer, operator)  # type: ignore[arg-type]
    else:
        convolution._check_operands(tensors, layer, operator)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pixels, batched, width, keeps",
    [(1, False, 2, False), (1, False, 1, True), (2, False, 2, True), (1, True, 2, True)],
)
def test_who_cares_where_image_rows_end(pixels: int, batched: bool, width: int, keeps: bool) -> None:
    plan = SimpleNamespace(
        pixels=pixels, layout=SimpleNamespace(batched=batched), window=SimpleNamespace(iw=width)
    )
    assert convolution.ConvolutionPlan.keeps_rows.fget(plan) is keeps  # type: ignore[attr-defined]


@pytest.mark.parametrize("keeps, rows", [(False, (49, 4)), (True, (14, 14))])
def test_rows_of_boxes_end_where_a_tile_of_pixels_is_full(keeps: bool, rows: tuple[int, int]) -> None:
    """Of 16 rows of the array, unless the layer cares where those of the image end."""
    plan = SimpleNamespace(window=window(), keeps_rows=keeps)
    found = convolution.ConvolutionPlan.window_of_boxes(plan, BASE)  # type: ignore[arg-type]
    assert (found.oh, found.ow) == (found.ih, found.iw) == rows
    assert found.view.pitch == 8 * rows[1]


def test_im2col_takes_fewer_cycles_than_the_array_or_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of 9,408 bytes takes 588 cycles to come, and its weights' next 4,096 bytes 256; by im2col it is through
    in some cycles, and LOAD is busy for some of them."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 56, 56, 3), DType.INT8)
    y = build.rescale(build.conv(x, 64, (1, 1)), DType.INT8)
    build.output(build.rescale(build.conv(y, 64, (1, 1)), DType.INT8))
    graph = legalize(build.finish(), BASE)
    first = next(operator for operator in graph.operators if operator.op == "CONV2D")
    slid = window(ih=56, iw=56, ic=3, oh=56, ow=56)

    def chosen(computing: int, cycles: int, loading: int) -> bool:
        found = SimpleNamespace(cycles=cycles, loading=loading)
        monkeypatch.setattr(convolution, "best_columns", lambda *_: found)
        monkeypatch.setattr(convolution, "array_cycles", lambda *_: computing)
        return convolution.choose_im2col(graph, BASE, first, slid, MemorySpeed()) is found

    assert [chosen(600, cycles, 100) for cycles in (599, 600, 601)] == [True, False, False]
    assert [chosen(500, cycles, 100) for cycles in (587, 588, 589)] == [True, False, False]
    # The next layer's weights come behind the image, or behind what im2col loads.
    assert [chosen(700, 650, loading) for loading in (587, 588, 700)] == [True, False, False]


def test_weights_that_come_behind_an_image_are_those_of_the_next_product() -> None:
    """Of the next layer of the array, wherever it is; none where they are computed, and none behind the last one."""
    build = LayerBuilder(1)
    x = build.rescale(build.conv(build.input("x", (1, 4, 4, 8), DType.INT8), 3, (1, 1)), DType.INT8)
    y = build.rescale(build.conv(build.add("REVERSE", [x], axis=1), 5, (2, 2)), DType.INT8)
    rows = build.add("RESHAPE", [y, build.shape((1, 9, 5))])
    other = build.input("b", (1, 5, 2), DType.INT8)
    build.output(
        build.add("MATMUL", [rows, other, build.zero_point(DType.INT8), build.zero_point(DType.INT8)])
    )
    graph = build.finish()
    products = [operator for operator in graph.operators if operator.op in ("CONV2D", "MATMUL")]
    assert [convolution._following_weights(graph, each) for each in products] == [5 * 2 * 2 * 3, 0, 0]


@pytest.mark.parametrize(
    "weight_bytes, depthwise, leaving, arriving",
    [(0, False, 8, 7), (1, False, 56, 56), (0, True, 56, 14), (1, True, 56, 56)],
)
def test_a_layer_is_cut_while_its_weights_stay(
    weight_bytes: int, depthwise: bool, leaving: int, arriving: int
) -> None:
    """Half of the weight memory, and some bytes more; results and images of 64 KiB in 56 rows of 8 pixels."""
    sizes = [BASE.wm_bytes // 2 - 64, 64 + weight_bytes]
    plan = SimpleNamespace(
        tiles=[SimpleNamespace(bytes=size) for size in sizes],
        layout=SimpleNamespace(depthwise=depthwise),
        window=window(oh=56, ow=8),
    )
    arrival = SimpleNamespace(source=SimpleNamespace(bytes=1 << 16))
    step = SimpleNamespace(config=BASE, convolution=plan, arrivals={"x": arrival})
    assert LayerPass._rows_while_leaving(step, plan, 1 << 16) == leaving  # type: ignore[arg-type]
    assert LayerPass._rows_while_arriving(step, plan.window) == arriving  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "width, widths",
    [
        (1, {1}),
        (5, {1, 2, 3, 5}),
        (16, {1, 2, 3, 4, 6, 8, 16}),
        (40, {2, 3, 4, 5, 6, 7, 8, 10, 14}),
        (66, {3, 4, 5, 6, 7, 8, 9, 10, 11, 14}),
        (100, {4, 5, 6, 7, 8, 9, 10, 12, 13, 15}),
        (600, {16}),
    ],
)
def test_widths_of_boxes_that_im2col_tries(width: int, widths: set[int], monkeypatch) -> None:
    """Up to 32 boxes of the same width, or nearly; none wider than 16."""
    tried = set()

    def overlapped(window, layout, config, columns, first, speed, weights):
        tried.add(columns)
        assert 1 <= first <= columns
        return columns, 0

    monkeypatch.setattr(im2col, "_overlapped", overlapped)
    layout = SimpleNamespace(blobs=[Blob(0, 16, 0)], chunks=2, run_count=1, bytes=512)
    slid = window(ih=40, iw=width, ic=3, ow=width, kh=3, kw=3)
    im2col.best_columns(slid, layout, BASE, MemorySpeed())  # type: ignore[arg-type]
    assert tried == widths


# --- parameters and weights


@pytest.mark.parametrize(
    "size, whole", [(1, True), (BASE.am_bytes // 4, True), (BASE.am_bytes // 4 + 1, False)]
)
def test_parameters_come_in_as_a_whole_up_to_a_quarter_of_the_memory(size: int, whole: bool) -> None:
    layer, placer = SimpleNamespace(per_channel=None), planner((1, 16)).placer
    step = SimpleNamespace(placer=placer, layer=layer, config=BASE, preloads=[], temporary=[])
    found = LayerPass._placed(step, ParamBlock(bytes(size), 64, 64, False))  # type: ignore[arg-type]
    assert (found.source is None) == whole
    assert [copy.size_bytes for copy in step.preloads] == ([size] if whole else [])


SCALES = PerChannel(np.arange(1, 21), np.arange(20))
CONVOLVED = dict(channels=40, pixels=2, tile_channels=16, bias=np.arange(40))


@pytest.mark.parametrize(
    "scales, bias, plan, tiles, bias_bytes",
    [
        (None, False, None, 0, 0),
        (SCALES, False, None, 2, 0),
        (SCALES, True, None, 2, 2),
        (RunTimeScales("multipliers", "shifts"), False, None, 2, 0),
        (None, False, CONVOLVED, 0, 0),
        (None, True, CONVOLVED, 3, 2),
        (None, True, CONVOLVED | dict(bias=np.arange(40) << 16), 3, 4),
        (SCALES, False, CONVOLVED, 3, 0),
        (SCALES, True, CONVOLVED, 3, 2),
    ],
)
def test_parameters_of_a_layer(
    scales: PerChannel | RunTimeScales | None, bias: bool, plan: dict | None, tiles: int, bias_bytes: int
) -> None:
    """Of 20 channels, and those of the pixels that a convolution computes together: biases, and scales of 5 bytes."""
    layer = SimpleNamespace(
        output="y",
        per_channel=scales,
        program=SimpleNamespace(bias=bias),
        bias=np.arange(20) if bias else None,
    )
    step = SimpleNamespace(
        layer=layer,
        config=BASE,
        convolution=None if plan is None else SimpleNamespace(**plan),
        tensors=SimpleNamespace(shape=lambda name: (20,)),
    )
    found = LayerPass._params(step)  # type: ignore[arg-type]
    tile_bytes = BASE.columns * (bias_bytes + 5 * (scales is not None))
    assert found == ParamBlock(found.data, tile_bytes, bias_bytes, scales is not None)
    assert len(found.data) == tiles * tile_bytes


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


LINE, PARAMS, TABLE = 64, 512, 1024
"""Addresses in activation memory."""


@pytest.mark.parametrize(
    "changed, late",
    [
        ({}, [PARAMS, TABLE]),
        (dict(table=None), [PARAMS]),
        (dict(params=Parameters(0, 0, False, address=PARAMS)), [TABLE]),
        (dict(params=Parameters(64, 64, False, PARAMS, Address(Region.CONSTANTS, 0))), [TABLE]),
        (dict(scales=["at run time"]), []),
        (dict(body=ArrayBody(None, None, None, in_blocks=True)), []),  # type: ignore[arg-type]
        (dict(body=None), []),
    ],
)
def test_what_only_the_vector_unit_needs_comes_behind_the_first_weights(
    changed: dict, late: list[int]
) -> None:
    """A convolution's parameters and its table, but no line along the channels; nothing where one command does many
    tiles."""
    body = ArrayBody(None, None, None, in_blocks=False)  # type: ignore[arg-type]
    places = [Address(Region.ACTIVATION, place) for place in (LINE, PARAMS, TABLE)]
    given = dict(
        body=body,
        params=Parameters(64, 64, False, address=PARAMS),
        table=TablePlace(TABLE, 256),
        scales=[],
        preloads=[Copy(Address(Region.CONSTANTS, 0), place, 64) for place in places],
    )
    found = _by_use(SimpleNamespace(**given | changed))  # type: ignore[arg-type]
    assert [copy.target.offset for copy in found[1]] == late
    assert sorted(copy.target.offset for copies in found for copy in copies) == [LINE, PARAMS, TABLE]


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
    """Of less residency: they take less than 0.9 of the cycles of the best one before them."""
    plans = [SimpleNamespace(cycles=count) for count in cycles]
    assert [plans.index(each) for each in ranked(plans)] == order  # type: ignore[arg-type, comparison-overlap]


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


@pytest.mark.parametrize("size, counts", [(2500, [1000, 1000, 500]), (1000, [1000]), (1001, [1000, 1])])
def test_a_tensor_is_copied_through_a_buffer_piece_by_piece(size: int, counts: list[int]) -> None:
    made = list[tuple[int, int, int]]()
    emitter = SimpleNamespace(
        load=lambda source, to, count: made.append((source.offset, to, count)),
        store=lambda source, to, count: made.append((source, to.offset, count)),
    )
    source, target = Placement(Address(Region.DATA, 64), size), Address(Region.DATA, 8192)
    _copy_all(emitter, [CopyThrough(source, target, 640, 1000)])  # type: ignore[arg-type]
    pieces = [(1000 * number, count) for number, count in enumerate(counts)]
    assert made == [
        each for start, count in pieces for each in ((64 + start, 640, count), (640, 8192 + start, count))
    ]
