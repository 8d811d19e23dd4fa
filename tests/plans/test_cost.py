"""What layers are predicted to cost, term by term: a planned layer of which only what the term is about is changed.

The machine is `base`, 16 lanes and a bus of 16 bytes per cycle."""

import dataclasses
import functools
from collections.abc import Sequence

import pytest
from layer_graphs import LayerBuilder
from window_shapes import window

from tosaic.compiler.cost.layers import Traffic
from tosaic.compiler.ir import DType
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.placement import Arrival, Buffer, BufferKey, Copy, Placement, Role, Sent, resident
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.search import Choices, plans_of, task_of
from tosaic.compiler.tile.convolution import box_work
from tosaic.compiler.tile.demands import (
    bus_is_free,
    computing_cycles,
    predicted_cycles,
    traffic,
    work_cycles,
)
from tosaic.compiler.tile.elementwise import ElementwisePlan, Shape
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.work import (
    ArrayBody,
    Body,
    CascadeWork,
    GraphPlan,
    LayerWork,
    PoolBody,
    Step,
    Stripe,
)
from tosaic.hw.config_text import get_config

CONFIG = get_config("base")
LITTLE = get_config("base,wm_bytes=8K")
ELEMENTS, COMPUTING = 1600, 100
"""Elements of the result of an elementwise layer, and the cycles that it computes: one for each 16 of them."""
IMAGES, ROWS, COLUMNS, CHANNELS = 2, 10, 15, 40
"""Sizes of the result of a layer with a window of 3 by 2."""


@functools.cache
def planned(kind: str, depth: int = 16) -> LayerWork:
    """A layer as it is planned."""
    build = LayerBuilder(1)
    match kind:
        case "elementwise":
            x = build.input("x", (1, 10, 10, 16), DType.INT8)
            y = build.add("NEGATE", [x, build.zero_point(DType.INT8), build.zero_point(DType.INT8)])
        case "array":
            x = build.input("x", (IMAGES, ROWS + 2, COLUMNS + 1, depth), DType.INT8)
            y = build.rescale(build.conv(x, CHANNELS, (3, 2)), DType.INT8)
        case "copy":
            y = build.add("TRANSPOSE", [build.input("x", (40, 40), DType.INT8)], perms=[1, 0])
        case _:
            x, indices = build.input("x", (1, 40, 40), DType.INT8), build.input("i", (1, 40), DType.INT32)
            y = build.add("GATHER", [x, indices])
    build.output(y)
    plan = next(plans_of(task_of(build.finish(), Choices(CONFIG)))).main
    (step,) = plan.steps
    assert isinstance(step.work, LayerWork)
    return step.work


def outside(size: int, offset: int = 0) -> Placement:
    return Placement(Address(Region.DATA, offset), size)


def bare(work: LayerWork, **parts: object) -> LayerWork:
    """The layer with nothing but these parts."""
    nothing: dict = dict(placements={}, preloads=[], result=None, buffers={}, arrivals={}, saved=[])
    return dataclasses.replace(work, **(nothing | parts))


def elementwise(body: Body | None = None, **parts: object) -> LayerWork:
    """One of 100 cycles, unless another body is given."""
    return bare(planned("elementwise"), **({} if body is None else dict(body=body)), **parts)


def pooled(extent: Extent, rows: tuple[int, int] | None = None) -> PoolBody:
    slid = window(n=IMAGES, ih=ROWS + 2, iw=COLUMNS + 1, oh=ROWS, ow=COLUMNS, kh=3, kw=2)
    return PoolBody(ImageBoxes(slid, CHANNELS, 16, rows=rows), extent)


WHOLE = Extent(ROWS, COLUMNS, CHANNELS)


def on_the_array(
    extent: Extent = WHOLE,
    rows: tuple[int, int] | None = None,
    depth: int = 16,
    offset: int = 0,
    **parts: object,
) -> LayerWork:
    """A convolution with 96 bytes of weights, by `depth`, for each of 48 channels."""
    work = planned("array", depth)
    assert isinstance(work.body, ArrayBody)
    plan = work.body.plan
    weights = dataclasses.replace(plan.weights, address=Address(Region.CONSTANTS, offset))
    cut = dataclasses.replace(pooled(extent).cut, rows=rows)
    body = ArrayBody(dataclasses.replace(plan, weights=weights), cut, extent, in_blocks=False)
    return bare(work, body=body, **parts)


WEIGHTS = 3 * 2 * 16 * 48
"""Bytes of those of 16 channels of the image."""


def array_cycles(rows: int, columns: int = COLUMNS) -> int:
    """Returns the cycles of a box on the array."""
    body = planned("array").body
    assert isinstance(body, ArrayBody)
    return box_work(body.plan, CONFIG, rows, columns).array_cycles


# --- computing


@pytest.mark.parametrize(
    "body, cycles",
    [
        (ElementwisePlan(Shape.BOXES, (100,), 300), 300),
        (ReductionPlan((4,), 10, 20, 777), 777),
        (pooled(Extent(4, 5, 40)), 600),
        (pooled(Extent(4, 5, 40), rows=(2, 7)), 300),
        (pooled(Extent(4, 5, 40), rows=(0, 3)), 180),
    ],
)
def test_what_vector_computes(body: Body, cycles: int) -> None:
    """A cycle for 16 elements: 1600 of them, or six times as many in a window of 3 by 2."""
    assert computing_cycles(elementwise(body), CONFIG) == cycles


@pytest.mark.parametrize("kind, cycles", [("copy", 680), ("gather", 1600)])
def test_an_element_that_moves_takes_a_cycle_unless_it_is_turned(kind: str, cycles: int) -> None:
    assert computing_cycles(planned(kind), CONFIG) == cycles


@pytest.mark.parametrize(
    "extent, rows, cycles",
    [
        (Extent(10, 15, 40), None, 2 * array_cycles(10)),
        (Extent(10, 99, 40), None, 2 * array_cycles(10)),
        (Extent(5, 15, 40), None, 2 * 2 * array_cycles(5)),
        (Extent(4, 15, 40), None, 2 * (2 * array_cycles(4) + array_cycles(2))),
        (Extent(4, 8, 40), None, 4 * (2 * array_cycles(4, 8) + array_cycles(2, 8))),
        (Extent(4, 5, 40), None, 6 * (2 * array_cycles(4, 5) + array_cycles(2, 5))),
        (Extent(4, 15, 40), (1, 9), 2 * 2 * array_cycles(4)),
        (Extent(4, 15, 40), (1, 4), 2 * array_cycles(3)),
    ],
)
def test_what_the_array_computes(extent: Extent, rows: tuple[int, int] | None, cycles: int) -> None:
    """Boxes of the last rows are lower, and no box is wider than the output."""
    assert computing_cycles(on_the_array(extent, rows), CONFIG) == cycles


# --- transferring


def test_what_comes_and_goes_whole() -> None:
    copies = [Copy(Address(Region.DATA, 0), Address(Region.ACTIVATION, 0), size) for size in (10, 200)]
    sent = Sent(Address(Region.ACTIVATION, 0), Address(Region.DATA, 0), 90, 20)
    arrivals = {"x": Arrival(outside(77), 7, 11), "z": Arrival(outside(5), 5, 1)}
    assert traffic(elementwise()) == Traffic(0, 0)
    assert traffic(elementwise(preloads=copies)) == Traffic(210, 0)
    assert traffic(elementwise(arrivals=arrivals)) == Traffic(82, 0)
    assert traffic(elementwise(result=sent)) == Traffic(0, 70)
    assert traffic(elementwise(saved=copies, result=sent)) == Traffic(0, 280)
    assert Traffic(3, 5) + Traffic(10, 20) == Traffic(13, 25)


PLACES = {"x": outside(1000), "y": outside(600), "p": outside(50)}


@pytest.mark.parametrize(
    "role, tensor, wanted",
    [
        (Role.OPERAND, "x", Traffic(1000, 0)),
        (Role.WINDOW, "x", Traffic(64, 0)),
        (Role.PARAMETERS, "", Traffic(64, 0)),
        (Role.RESULT, "y", Traffic(0, 600)),
        (Role.PARTIALS, "", Traffic(0, 0)),
    ],
)
def test_what_goes_through_a_buffer(role: Role, tensor: str, wanted: Traffic) -> None:
    """An operand and a result come to the whole tensor, what a window reads and parameters to their buffer per box."""
    buffers = {BufferKey(role, tensor): Buffer((0, 64), 64)}
    assert traffic(elementwise(buffers=buffers, placements=PLACES)) == wanted


@pytest.mark.parametrize(
    "extent, rows, boxes, share",
    [
        (Extent(10, 15, 40), None, 2, 1),
        (Extent(5, 15, 40), None, 4, 1),
        (Extent(4, 15, 40), None, 6, 1),
        (Extent(10, 14, 40), None, 4, 1),
        (Extent(10, 15, 39), None, 4, 1),
        (Extent(4, 5, 16), None, 2 * 3 * 3 * 3, 1),
        (Extent(4, 5, 16), (2, 7), 2 * 2 * 3 * 3, 0.5),
        (Extent(5, 15, 40), (2, 7), 2, 0.5),
        (Extent(4, 15, 40), (2, 7), 4, 0.5),
    ],
)
@pytest.mark.parametrize("pool", [True, False])
def test_boxes_of_a_window(
    extent: Extent, rows: tuple[int, int] | None, boxes: int, share: float, pool: bool
) -> None:
    """Each image's rows, columns and channels are cut; of other operands and the result a stripe has its share."""
    buffers = {
        BufferKey(Role.WINDOW, "x"): Buffer((0, 64), 64),
        BufferKey(Role.OPERAND, "p"): Buffer((0, 64), 16),
        BufferKey(Role.RESULT, "y"): Buffer((0, 64), 32),
    }
    work = elementwise(pooled(extent, rows)) if pool else on_the_array(extent, rows)
    found = traffic(bare(work, buffers=buffers, placements=PLACES))
    assert found == Traffic(boxes * 64 + int(share * 50), int(share * 600))


@pytest.mark.parametrize("kind", ["copy", "gather"])
def test_what_a_move_transfers(kind: str) -> None:
    """All that is outside, once."""
    work = planned(kind)
    places = {"x": outside(1000), work.output: outside(600), "p": outside(50)}
    assert traffic(bare(work, placements=places)) == Traffic(1050, 600)
    assert traffic(bare(work, placements=places | {"x": resident(0, 1000)})) == Traffic(50, 600)
    inside = places | {work.output: resident(0, 600)}
    assert traffic(bare(work, placements=inside)) == Traffic(1050, 0)
    assert traffic(elementwise(placements=places)) == Traffic(0, 0)


@pytest.mark.parametrize(
    "depth, channels, times",
    [(16, 40, 1), (32, 40, 6), (32, 39, 1), (64, 39, 6), (64, 16, 1), (96, 16, 6)],
)
def test_weights_come_once_if_those_of_a_boxs_channels_stay(depth: int, channels: int, times: int) -> None:
    """In 8 KiB, for one, two or three groups of channels, each of six boxes. From a slow memory."""
    work = on_the_array(Extent(4, 15, channels), depth=depth)
    cycles = work_cycles(work, LITTLE, MemorySpeed(0.01))
    assert cycles == 100 * times * WEIGHTS * depth // 16


# --- together


def buffer(count: int, size: int = 160, role: Role = Role.OPERAND) -> dict[BufferKey, Buffer]:
    return {BufferKey(role, "x"): Buffer(tuple(range(count)), size)}


@pytest.mark.parametrize(
    "size, count, speed, cycles",
    [
        (16 * 99, 2, FULL_SPEED, COMPUTING + 10),
        (16 * 100, 2, FULL_SPEED, COMPUTING + 10),
        (16 * 101, 2, FULL_SPEED, 111),
        (16 * 102 - 1, 2, FULL_SPEED, 111),
        (16 * 101, 1, FULL_SPEED, COMPUTING + 101),
        (16 * 50, 1, FULL_SPEED, COMPUTING + 50),
        (16 * 50, 2, MemorySpeed(4), 200 + 40),
        (16 * 50, 1, MemorySpeed(4), COMPUTING + 200),
        (16 * 50, 2, MemorySpeed(64), COMPUTING + 10),
    ],
)
def test_transfers_while_others_are_computed(size: int, count: int, speed: MemorySpeed, cycles: int) -> None:
    """Where all buffers are double: but for the first that comes and the last that leaves."""
    each = elementwise(buffers=buffer(count), placements={"x": outside(size)})
    assert work_cycles(each, CONFIG, speed) == cycles


def test_both_directions_are_in_use_at_a_time() -> None:
    both = buffer(2) | {BufferKey(Role.RESULT, "y"): Buffer((0, 1), 320)}
    places = {"x": outside(16 * 400), "y": outside(16 * 500)}
    assert work_cycles(elementwise(buffers=both, placements=places), CONFIG, FULL_SPEED) == 500 + 30
    single = both | {BufferKey(Role.RESULT, "y"): Buffer((0,), 320)}
    found = work_cycles(elementwise(buffers=single, placements=places), CONFIG, FULL_SPEED)
    assert found == COMPUTING + 500


@pytest.mark.parametrize("count, ends", [(2, 10), (1, 4)])
@pytest.mark.parametrize("speed", [16, 1, 0.25])
def test_weights_come_while_the_array_computes(count: int, ends: int, speed: float) -> None:
    """Whatever else waits where its buffer is not double."""
    each = on_the_array(buffers=buffer(count), placements={"x": outside(64)})
    weights, image, ends = (int(size / speed) for size in (WEIGHTS, 64, 16 * ends))
    together = weights + image if count == 2 else weights
    assert work_cycles(each, CONFIG, MemorySpeed(speed)) == max(2 * array_cycles(10), together) + ends


def stripes(count: int = 2, depth: int = 16) -> list[LayerWork]:
    """Returns the stripes of two layers; the third stripe is of the first layer."""
    return [
        on_the_array(
            depth=depth,
            offset=offset,
            buffers=buffer(count, 160 + 16 * number),
            placements={"x": outside(640)},
        )
        for number, offset in enumerate((0, 1 << 16, 0))
    ]


def cascade_of(works: list[LayerWork]) -> CascadeWork:
    return CascadeWork([], [Stripe(0, each) for each in works])


@pytest.mark.parametrize("wm_bytes, read", [(16, 2 * WEIGHTS), (8, 3 * WEIGHTS)])
@pytest.mark.parametrize("bandwidth", [16, 0.5])
def test_weights_of_a_cascade_come_once_if_all_stay(wm_bytes: int, read: int, bandwidth: float) -> None:
    config, speed = get_config(f"base,wm_bytes={wm_bytes}K"), MemorySpeed(bandwidth)
    works = stripes()
    computing = 3 * (2 * array_cycles(10) + 64)
    transferring, ends = int((read + 640 * 3) / bandwidth), int((160 + 16 * 2) / bandwidth)
    wanted = max(computing, transferring) + ends
    cascade = cascade_of(works)
    assert work_cycles(cascade, config, speed) == wanted
    assert computing_cycles(cascade, config) == 3 * 2 * array_cycles(10)
    single = stripes(1)
    assert work_cycles(cascade_of(single), config, speed) == computing + transferring
    # The last of the equal buffers counts.
    assert work_cycles(cascade_of([single[0], *works[1:]]), config, speed) == wanted


def test_a_cascade_without_weights() -> None:
    found = work_cycles(cascade_of([elementwise(), elementwise()]), CONFIG, FULL_SPEED)
    assert found == 2 * (COMPUTING + 64)


def plan_of(works: Sequence[LayerWork | CascadeWork]) -> GraphPlan:
    info = LayerInfo("layer", "ABS", 0, "y", ("layer",), 1)
    root = planned("elementwise").layer.root
    return GraphPlan([Step(number, info, root, each) for number, each in enumerate(works)])


def test_a_graph_is_all_its_layers() -> None:
    one, two = elementwise(), bare(planned("copy"))
    cascade = CascadeWork([], [Stripe(0, one), Stripe(1, one)])
    assert predicted_cycles(plan_of([]), CONFIG, FULL_SPEED) == 0
    assert predicted_cycles(plan_of([one, two, cascade]), CONFIG, FULL_SPEED) == 100 + 680 + 328


@pytest.mark.parametrize("spare, free", [(16, True), (0, False)])
@pytest.mark.parametrize("cascaded", [False, True])
def test_a_bus_is_free_if_it_brings_all_in_less_time(spare: int, free: bool, cascaded: bool) -> None:
    """Two layers with an operand each; weights of one address are the same."""
    size = (16 * 4 * array_cycles(10) - WEIGHTS) // 2 - spare
    one, two = (on_the_array(buffers=buffer(2), placements={"x": outside(size)}) for _ in range(2))
    works = [CascadeWork([], [Stripe(0, one), Stripe(1, two)])] if cascaded else [one, two]
    assert bus_is_free(plan_of(works), CONFIG, FULL_SPEED) is free
    assert bus_is_free(plan_of(works), CONFIG, MemorySpeed(0.1)) is False
    assert bus_is_free(plan_of([]), CONFIG, FULL_SPEED) is False
