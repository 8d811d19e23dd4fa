"""What layers are predicted to cost, term by term: the works here have nothing but what the term is about.

The machine is `base`, 16 lanes and a bus of 16 bytes per cycle."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.placement import Arrival, Buffer, BufferKey, Copy, Placement, Role, Sent, resident
from tosaic.compiler.tile import cost
from tosaic.compiler.tile.cost import (
    Traffic,
    bus_is_free,
    cascade_cycles,
    computing_cycles,
    predicted_cycles,
    work_cycles,
)
from tosaic.compiler.tile.elementwise import ElementwisePlan, Shape
from tosaic.compiler.tile.gather_scatter import GatherScatterPlan
from tosaic.compiler.tile.image_boxes import Extent
from tosaic.compiler.tile.layout_copy import LayoutCopy
from tosaic.compiler.tile.reduction import ReductionPlan
from tosaic.compiler.tile.work import ArrayBody, CascadeWork, GraphPlan, LayerWork, PoolBody, Step, Stripe
from tosaic.hw.config_text import get_config

CONFIG = get_config("base")
ELEMENTS, BEATS = 1600, 3
"""Of the result of each layer here."""
COMPUTING = ELEMENTS * BEATS // 16


def outside(size: int, offset: int = 0) -> Placement:
    return Placement(Address(Region.DATA, offset), size)


def work(body: Any = None, **parts: Any) -> LayerWork:
    """An elementwise layer, unless another body is given."""
    tensors = SimpleNamespace(elements=lambda _: ELEMENTS, element=lambda _: None, storage={"y": "y"})
    layer = SimpleNamespace(output="y", program=SimpleNamespace(beats=lambda _: BEATS))
    body = ElementwisePlan(Shape.STRIPES, (100,), COMPUTING) if body is None else body
    whole = dict(placements={}, preloads=[], result=None) | parts
    return LayerWork(tensors, layer, body, **whole)  # type: ignore[arg-type]


def cut(**fields: Any) -> Any:
    """Of an output of two images, 10 rows of 14 columns and 40 channels."""
    window = SimpleNamespace(n=2, oh=10, ow=14, kh=3, kw=2)
    return SimpleNamespace(**dict(window=window, channels=40, rows=None) | fields)


def array_body(extent: Extent, size: int = 0, offset: int = 0, **fields: Any) -> ArrayBody:
    weights = SimpleNamespace(address=Address(Region.CONSTANTS, offset))
    plan = SimpleNamespace(weights=weights, layout=SimpleNamespace(bytes=size))
    return ArrayBody(plan, cut(**fields), extent, in_blocks=False)  # type: ignore[arg-type]


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box on the array takes 100 cycles for a row, and one for a column."""

    def box_work(_plan: Any, _config: Any, rows: int, columns: int) -> Any:
        return SimpleNamespace(array_cycles=100 * rows + columns)

    monkeypatch.setattr(cost, "box_work", box_work)


# --- computing


@pytest.mark.parametrize(
    "body, cycles",
    [
        (ElementwisePlan(Shape.BOXES, (100,), 300), 300),
        (ReductionPlan((4,), 10, 20, 777), 777),
        (LayoutCopy(*[None] * 5), 1600),  # type: ignore[arg-type]
        (PoolBody(cut(), Extent(4, 5, 40)), 1800),
        (PoolBody(cut(rows=(2, 7)), Extent(4, 5, 40)), 900),
        (PoolBody(cut(rows=(0, 3)), Extent(4, 5, 40)), 540),
    ],
)
def test_what_vector_computes(body: Any, cycles: int) -> None:
    """Three cycles for 16 elements: 1600 of them, or six times as many in a window of 3 by 2. An indexed or laid out
    element takes a cycle."""
    assert computing_cycles(work(body), CONFIG) == cycles


@pytest.mark.parametrize(
    "extent, rows, cycles",
    [
        (Extent(10, 14, 40), None, 2 * 1014),
        (Extent(10, 99, 40), None, 2 * 1014),
        (Extent(5, 14, 40), None, 2 * 2 * 514),
        (Extent(4, 14, 40), None, 2 * (2 * 414 + 214)),
        (Extent(4, 7, 40), None, 4 * (2 * 407 + 207)),
        (Extent(4, 5, 40), None, 6 * (2 * 405 + 205)),
        (Extent(4, 14, 40), (1, 9), 2 * 2 * 414),
        (Extent(4, 14, 40), (1, 4), 2 * 314),
    ],
)
def test_what_the_array_computes(extent: Extent, rows: Any, cycles: int, boxes: None) -> None:
    """Boxes of the last rows are lower, and no box is wider than the output."""
    assert computing_cycles(work(array_body(extent, rows=rows)), CONFIG) == cycles


# --- transferring


def moved(body: Any = None, **parts: Any) -> tuple[int, int]:
    found = cost._traffic(work(body, **parts), CONFIG)
    return found.read, found.written


def test_what_comes_and_goes_whole() -> None:
    copies = [Copy(Address(Region.DATA, 0), Address(Region.ACTIVATION, 0), size) for size in (10, 200)]
    sent = Sent(Address(Region.ACTIVATION, 0), Address(Region.DATA, 0), 90, 20)
    assert moved() == (0, 0)
    assert moved(preloads=copies) == (210, 0)
    assert moved(arrivals={"x": Arrival(outside(77), 7, 11), "z": Arrival(outside(5), 5, 1)}) == (82, 0)
    assert moved(result=sent) == (0, 70)
    assert moved(saved=copies, result=sent) == (0, 280)


PLACES = {"x": outside(1000), "y": outside(600), "p": outside(50)}


@pytest.mark.parametrize(
    "role, tensor, wanted",
    [
        (Role.OPERAND, "x", (1000, 0)),
        (Role.WINDOW, "x", (64, 0)),
        (Role.PARAMETERS, "", (64, 0)),
        (Role.RESULT, "y", (0, 600)),
        (Role.PARTIALS, "", (0, 0)),
    ],
)
def test_what_goes_through_a_buffer(role: Role, tensor: str, wanted: tuple[int, int]) -> None:
    """An operand and a result come to the whole tensor, what a window reads and parameters to their buffer per box."""
    buffers = {BufferKey(role, tensor): Buffer((0, 64), 64)}
    assert moved(buffers=buffers, placements=PLACES) == wanted


@pytest.mark.parametrize(
    "extent, rows, boxes, share",
    [
        (Extent(10, 14, 40), None, 2, 1),
        (Extent(5, 14, 40), None, 4, 1),
        (Extent(4, 14, 40), None, 6, 1),
        (Extent(10, 13, 40), None, 4, 1),
        (Extent(10, 14, 39), None, 4, 1),
        (Extent(4, 5, 16), None, 2 * 3 * 3 * 3, 1),
        (Extent(4, 5, 16), (2, 7), 2 * 2 * 3 * 3, 0.5),
        (Extent(5, 14, 40), (2, 7), 2, 0.5),
        (Extent(4, 14, 40), (2, 7), 4, 0.5),
    ],
)
@pytest.mark.parametrize("pool", [True, False])
def test_boxes_of_a_window(extent: Extent, rows: Any, boxes: int, share: float, pool: bool) -> None:
    """Each image's rows, columns and channels are cut; of other operands and the result a stripe has its share."""
    body = PoolBody(cut(rows=rows), extent) if pool else array_body(extent, rows=rows)
    buffers = {
        BufferKey(Role.WINDOW, "x"): Buffer((0, 64), 64),
        BufferKey(Role.OPERAND, "p"): Buffer((0, 64), 16),
        BufferKey(Role.RESULT, "y"): Buffer((0, 64), 32),
    }
    wanted = (boxes * 64 + int(share * 50), int(share * 600))
    assert moved(body, buffers=buffers, placements=PLACES) == wanted


@pytest.mark.parametrize("kind", [LayoutCopy, GatherScatterPlan])
def test_what_a_move_transfers(kind: type) -> None:
    """All that is outside, once."""
    body = kind(*[None] * len(dataclasses.fields(kind)))
    assert moved(body, placements=PLACES) == (1050, 600)
    assert moved(body, placements=PLACES | {"x": resident(0, 1000)}) == (50, 600)
    assert moved(body, placements=PLACES | {"y": resident(0, 600)}) == (1050, 0)
    assert moved(placements=PLACES) == (0, 0)


@pytest.mark.parametrize(
    "size, channels, fetched",
    [
        (100, 40, 100),
        (CONFIG.wm_bytes, 40, CONFIG.wm_bytes),
        (CONFIG.wm_bytes + 1, 40, 6 * (CONFIG.wm_bytes + 1)),
        (3 * CONFIG.wm_bytes, 16, 3 * CONFIG.wm_bytes),
        (3 * CONFIG.wm_bytes + 1, 16, 6 * (3 * CONFIG.wm_bytes + 1)),
        (2 * CONFIG.wm_bytes + 1, 39, 6 * (2 * CONFIG.wm_bytes + 1)),
    ],
)
def test_weights_come_once_if_those_of_a_boxs_channels_stay(size: int, channels: int, fetched: int) -> None:
    """Of 40 channels there are one, two or three groups, each of six boxes."""
    assert cost._fetched_weights(array_body(Extent(4, 14, channels), size), CONFIG) == fetched


# --- together


def buffer(count: int, size: int = 160, role: Role = Role.OPERAND) -> dict[BufferKey, Buffer]:
    return {BufferKey(role, "x"): Buffer(tuple(range(count)), size)}


@pytest.mark.parametrize(
    "size, count, speed, cycles",
    [
        (16 * 299, 2, FULL_SPEED, COMPUTING + 10),
        (16 * 300, 2, FULL_SPEED, COMPUTING + 10),
        (16 * 301, 2, FULL_SPEED, 311),
        (16 * 302 - 1, 2, FULL_SPEED, 311),
        (16 * 301, 1, FULL_SPEED, COMPUTING + 301),
        (16 * 100, 1, FULL_SPEED, COMPUTING + 100),
        (16 * 100, 2, MemorySpeed(4), 400 + 40),
        (16 * 100, 1, MemorySpeed(4), COMPUTING + 400),
        (16 * 100, 2, MemorySpeed(64), COMPUTING + 10),
    ],
)
def test_transfers_while_others_are_computed(size: int, count: int, speed: MemorySpeed, cycles: int) -> None:
    """Where all buffers are double: but for the first that comes and the last that leaves."""
    each = work(buffers=buffer(count), placements={"x": outside(size)})
    assert work_cycles(each, CONFIG, speed) == cycles


def test_both_directions_are_in_use_at_a_time() -> None:
    both = buffer(2) | {BufferKey(Role.RESULT, "y"): Buffer((0, 1), 320)}
    places = {"x": outside(16 * 400), "y": outside(16 * 500)}
    assert work_cycles(work(buffers=both, placements=places), CONFIG, FULL_SPEED) == 500 + 30
    single = both | {BufferKey(Role.RESULT, "y"): Buffer((0,), 320)}
    assert work_cycles(work(buffers=single, placements=places), CONFIG, FULL_SPEED) == COMPUTING + 500


@pytest.mark.parametrize(
    "count, size, cycles",
    [
        (2, 1600, 2028 + 10),
        (2, 16 * 2028 - 64, 2028 + 10),
        (2, 16 * 3000, 3004 + 10),
        (1, 1600, 2028 + 4),
        (1, 16 * 2028 + 15, 2028 + 4),
        (1, 16 * 2029, 2029 + 4),
    ],
)
def test_weights_come_while_the_array_computes(count: int, size: int, cycles: int, boxes: None) -> None:
    """2028 cycles, with 64 bytes of an operand: whatever else waits where its buffer is not double."""
    config = dataclasses.replace(CONFIG, wm_bytes=1 << 17)
    body = array_body(Extent(10, 14, 40), size)
    each = work(body, buffers=buffer(count), placements={"x": outside(64)})
    assert work_cycles(each, config, FULL_SPEED) == cycles


def stripes(*sizes: int, count: int = 2) -> list[LayerWork]:
    return [
        work(
            array_body(Extent(10, 14, 40), size, offset),
            buffers=buffer(count, 160 + 16 * number),
            placements={"x": outside(640)},
        )
        for number, (offset, size) in enumerate(zip((0, 4096, 0), sizes, strict=False))
    ]


@pytest.mark.parametrize(
    "sizes, read",
    [
        ((16000, 32000), 48000),
        ((16000, 32000, 16000), 48000),
        ((16000, (1 << 16) - 16000, 16000), 1 << 16),
        ((16000, (1 << 16) - 15984, 16000), (1 << 16) + 16 + 16000),
    ],
)
def test_weights_of_a_cascade_come_once_if_all_stay(sizes: tuple[int, ...], read: int, boxes: None) -> None:
    """The third stripe is of the first one's layer."""
    config = dataclasses.replace(CONFIG, wm_bytes=1 << 16)
    works, number = stripes(*sizes), len(sizes)
    # The last of the equal buffers counts.
    ends = (160 + 16 * (number - 1)) // 16
    transferring = (read + 640 * number) // 16
    computing = number * (2028 + 64)
    wanted = max(computing, transferring) + ends
    assert cascade_cycles(works, config, FULL_SPEED) == wanted
    cascade = CascadeWork([], [Stripe(0, each) for each in works])
    assert work_cycles(cascade, config, FULL_SPEED) == wanted
    assert computing_cycles(cascade, config) == number * 2028
    single = stripes(*sizes, count=1)
    assert cascade_cycles(single, config, FULL_SPEED) == computing + transferring
    mixed = [*stripes(*sizes, count=1)[:1], *works[1:]]
    assert cascade_cycles(mixed, config, FULL_SPEED) == wanted


def test_a_cascade_without_weights() -> None:
    assert cascade_cycles([work(), work()], CONFIG, FULL_SPEED) == 2 * (COMPUTING + 64)


def plan_of(*works: LayerWork | CascadeWork) -> GraphPlan:
    return GraphPlan([Step(number, None, None, each) for number, each in enumerate(works)])  # type: ignore[arg-type]


def test_a_graph_is_all_its_layers() -> None:
    one, two = work(), work(LayoutCopy(*[None] * 5))  # type: ignore[arg-type]
    cascade = CascadeWork([], [Stripe(0, one), Stripe(1, one)])
    assert predicted_cycles(plan_of(), CONFIG, FULL_SPEED) == 0
    assert predicted_cycles(plan_of(one, two, cascade), CONFIG, FULL_SPEED) == 300 + 1600 + 728


@pytest.mark.parametrize(
    "size, free", [(0, True), (16 * 4056 - 640 - 640 - 16, True), (16 * 4056 - 640 - 640, False)]
)
def test_a_bus_is_free_if_it_brings_all_in_less_time(size: int, free: bool, boxes: None) -> None:
    """Two layers of 2028 cycles with an operand of 640 bytes each; weights of one address are the same."""
    config = dataclasses.replace(CONFIG, wm_bytes=1 << 20)
    one, two = (
        work(array_body(Extent(10, 14, 40), size), buffers=buffer(2), placements={"x": outside(640)})
        for _ in range(2)
    )
    assert bus_is_free(plan_of(one, two), config, FULL_SPEED) is free
    cascade = CascadeWork([], [Stripe(0, one), Stripe(1, two)])
    assert bus_is_free(plan_of(cascade), config, FULL_SPEED) is free
    assert bus_is_free(plan_of(one, two), config, MemorySpeed(0.1)) is False
    assert bus_is_free(plan_of(), config, FULL_SPEED) is False


def test_traffic_adds_up() -> None:
    assert Traffic(3, 5) + Traffic(10, 20) == Traffic(13, 25)
    assert Traffic() == Traffic(0, 0)
