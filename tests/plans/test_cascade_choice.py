"""Which layers run as a cascade: the chains that save most predicted cycles, and what may be linked at all."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest

import tosaic.compiler.tile.cascade_choice as choice
from tosaic.compiler.memory_speed import FULL_SPEED
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import Arrival, Buffer, Copy, Placement, Sent, resident
from tosaic.compiler.tile.cascade import StripeRows
from tosaic.compiler.tile.cascade_choice import _estimated, _in_rows, _linked, _stripped, propose, worthwhile
from tosaic.compiler.tile.cascade_tiles import CascadeTiler, _Places, _turned
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes
from tosaic.compiler.tile.work import (
    CascadeWork,
    GraphPlan,
    LayerWork,
    LoopWork,
    Parameters,
    PoolBody,
    Step,
    TablePlace,
)
from tosaic.hw.config_text import get_config

SMALL = get_config("small")
OUTSIDE = Address(Region.DATA, 1 << 16)
ROW = 40
"""Bytes of a row of a result: 5 pixels of 8 channels."""


def boxes(height: int, *, kernel: int = 1, storage: str = "x", offset: int = 0) -> ImageBoxes:
    rows = height - kernel + 1
    view = View(storage, offset, ROW, ROW * height)
    return ImageBoxes(Window(1, height, 5, 8, rows, 5, kernel, 1, 1, 1, 1, 1, 0, 0, view), 8, 8)


class Tensors:
    """Images of 5 columns and 8 channels, of some rows each."""

    def __init__(self, heights: dict[str, int]):
        self.heights = heights
        self.outputs: list[str] = []
        self.names: dict[str, list[str]] = {}
        self.readers: dict[str, list[Any]] = {}
        self.graph = SimpleNamespace(outputs=self.outputs, const=lambda name: 1 if name == "known" else None)
        self.index = SimpleNamespace(consumers=lambda name: self.readers.get(name, []))
        self.storage = {name: name for name in heights}

    def shape(self, name: str) -> tuple[int, ...]:
        return (1, self.heights[name], 5, 8)

    def size_bytes(self, name: str) -> int:
        return ROW * self.heights[name]

    def sharing(self, name: str) -> list[str]:
        return self.names.get(name, [name])

    def element(self, name: str) -> Any:
        return SimpleNamespace(bytes=1)


def layer(source: str, output: str, tensors: Tensors, *, kernel: int = 1, **changed: Any) -> LayerWork:
    """A pool that slides over `source`, which is outside; its result, too."""
    base = SimpleNamespace(inputs=[source])
    tensors.readers.setdefault(source, []).append(base)
    program = SimpleNamespace(loads=[], body_loads=0)
    made = SimpleNamespace(output=output, base=base, table=None, program=program)
    cut = boxes(tensors.heights[source], kernel=kernel, storage=source)
    placements = {name: Placement(OUTSIDE, tensors.size_bytes(name)) for name in (source, output)}
    given: dict[str, Any] = dict(
        body=PoolBody(cut, cut.largest()), placements=placements, preloads=[], result=None
    )
    return LayerWork(tensors=tensors, layer=made, **given | changed)  # type: ignore[arg-type]


def plan_of(works: list[Any]) -> GraphPlan:
    return GraphPlan([Step(number, None, None, work) for number, work in enumerate(works)])  # type: ignore[arg-type]


def works_of(count: int, *, inside: tuple[int, ...] = ()) -> list[LayerWork]:
    """Layers one behind the other; the results of some are in activation memory."""
    tensors = Tensors({str(number): 8 for number in range(count + 1)})
    works = []
    for number in range(count):
        work = layer(str(number), str(number + 1), tensors)
        if number in inside:
            work.placements[str(number + 1)] = resident(0, ROW * 8)
        works.append(work)
    return works


# --- chains


class Costs:
    """Cycles of layers by themselves, and of those that may run as a cascade."""

    def __init__(self, patch: pytest.MonkeyPatch, works: list[LayerWork], plain: list[int]):
        self.numbers = {id(work): number for number, work in enumerate(works)}
        self.plain, self.together = plain, dict[tuple[int, int], int]()
        self.unlinked: set[int] = set()
        self.decoding: set[tuple[int, int]] = set()
        self.asked: dict[tuple[int, int], int] = {}
        patch.setattr(choice, "work_cycles", lambda work, config, speed: plain[self.numbers[id(work)]])
        patch.setattr(choice, "_linked", lambda first, then: self.numbers[id(then)] not in self.unlinked)
        patch.setattr(choice, "_decodes_again", lambda members, config: self._key(members) in self.decoding)
        patch.setattr(choice, "_estimated", self._estimated)

    def _key(self, members: list[LayerWork]) -> tuple[int, int]:
        return self.numbers[id(members[0])], self.numbers[id(members[-1])]

    def _estimated(self, members: list[LayerWork], plain: int, config: object, speed: object) -> int | None:
        self.asked[self._key(members)] = plain
        return self.together.get(self._key(members))


def proposed(works: list[Any]) -> list[tuple[int, int]]:
    return propose(plan_of(works), SMALL, FULL_SPEED)


@pytest.mark.parametrize("seed", range(12))
def test_the_cascades_that_save_most(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the least of all ways to join up to four layers each."""
    dice, count = random.Random(seed), 6
    works = works_of(count)
    costs = Costs(monkeypatch, works, [dice.randrange(50, 100) for _ in range(count)])
    chains = [(a, b) for a in range(count) for b in range(a + 1, min(a + 4, count))]
    costs.together = {
        chain: dice.randrange(30 * (1 + chain[1] - chain[0]), 90 * (1 + chain[1] - chain[0]))
        for chain in chains
        if dice.random() < 0.6
    }
    best = min(_cycles(way, costs, count) for way in _ways(chains))
    found = proposed(works)
    assert found == sorted(found)
    assert _cycles(found, costs, count) == best
    assert costs.asked == {(a, b): sum(costs.plain[a : b + 1]) for a, b in chains}


def _ways(chains: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Chains that have no layer in common."""
    found: list[list[tuple[int, int]]] = [[]]
    for size in (1, 2, 3):
        found += [
            list(each)
            for each in itertools.combinations(chains, size)
            if all(a[1] < b[0] for a, b in itertools.pairwise(each))
        ]
    return found


def _cycles(way: list[tuple[int, int]], costs: Costs, count: int) -> int:
    alone = set(range(count)) - {number for a, b in way for number in range(a, b + 1)}
    return sum(costs.plain[n] for n in alone) + sum(costs.together.get(chain, 1 << 30) for chain in way)


def test_a_cascade_that_saves_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    works = works_of(3)
    costs = Costs(monkeypatch, works, [50, 60, 70])
    for cycles, wanted in ((110, []), (109, [(0, 1)])):
        costs.together = {(0, 1): cycles}
        assert proposed(works) == wanted
    # The same cycles: the shorter one, which begins later, stays.
    costs.together = {(1, 2): 100, (0, 2): 150}
    assert proposed(works) == [(1, 2)]
    costs.together[0, 2] = 149
    assert proposed(works) == [(0, 2)]


def test_what_is_not_linked_ends_a_cascade(monkeypatch: pytest.MonkeyPatch) -> None:
    works = works_of(5)
    costs = Costs(monkeypatch, works, [9] * 5)
    costs.unlinked = {2}
    proposed(works)
    assert set(costs.asked) == {(0, 1), (2, 3), (2, 4), (3, 4)}
    costs.asked, costs.unlinked, costs.decoding = {}, set(), {(0, 1)}
    proposed(works)
    assert set(costs.asked) == {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}


def test_results_that_are_inside_need_no_cascade(monkeypatch: pytest.MonkeyPatch) -> None:
    """But one that goes on to what leaves the memory."""
    works = works_of(4, inside=(1,))
    costs = Costs(monkeypatch, works, [9] * 4)
    proposed(works)
    assert set(costs.asked) == {(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)}


def test_what_is_no_layer_is_in_no_cascade() -> None:
    loop = LoopWork(None, [], GraphPlan(), None, GraphPlan(), [])  # type: ignore[arg-type]
    assert proposed([loop, loop]) == []


@pytest.mark.parametrize("cycles, wanted", [(110, []), (109, [(1, 2)])])
def test_cascades_that_were_worth_it(cycles: int, wanted: list, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with the same layers of a plan without cascades."""
    works = works_of(5)
    plain = dict(zip(map(id, works), (1000, 50, 60, 7, 1000), strict=True))
    joined, last = (CascadeWork(plan_of(works[a:b]).steps, []) for a, b in ((1, 3), (3, 5)))
    known = plain | {id(joined): cycles, id(last): 1006}
    monkeypatch.setattr(choice, "work_cycles", lambda work, config, speed: known[id(work)])
    found = worthwhile(plan_of([works[0], joined, last]), plan_of(works), SMALL, FULL_SPEED)
    assert found == [*wanted, (3, 4)]


# --- what may be linked


def pair() -> tuple[LayerWork, LayerWork, Tensors]:
    tensors = Tensors({"x": 8, "y": 8, "z": 6})
    return layer("x", "y", tensors), layer("y", "z", tensors, kernel=3), tensors


def test_layers_one_behind_the_other_are_linked() -> None:
    first, then, _ = pair()
    assert _linked(first, then)
    assert not _linked(then, first)


@pytest.mark.parametrize("change", range(6))
def test_what_somebody_else_needs_is_not_linked(change: int) -> None:
    """It is a result, has another name, another reader, or the layer reads a part of it, twice, or something else."""
    first, then, tensors = pair()
    base = then.layer.base
    assert base is not None
    match change:
        case 0:
            tensors.outputs.append("y")
        case 1:
            tensors.names["y"] = ["y", "other"]
        case 2:
            tensors.readers["y"].append("another")
        case 3:
            base.inputs.append("y")
        case 4:
            base.inputs[0] = "x"
        case _:
            cut = boxes(8, kernel=3, storage="y", offset=ROW)
            then = LayerWork(**{**vars(then), "body": PoolBody(cut, cut.largest())})
    assert not _linked(first, then)


def test_images_must_have_as_many_rows() -> None:
    tensors = Tensors({"x": 9, "y": 8, "z": 8})
    first, then = layer("x", "y", tensors, kernel=2), layer("y", "z", tensors)
    assert _linked(first, then)
    cut = boxes(7, storage="y")
    assert not _linked(first, LayerWork(**{**vars(then), "body": PoolBody(cut, cut.largest())}))


@pytest.mark.parametrize(
    "changed, runs",
    [
        ({}, True),
        (dict(params=Parameters(8, 4, True, source=OUTSIDE)), False),
        (dict(params=Parameters(8, 4, True, address=64)), True),
        (dict(scales=["at run time"]), False),
        (dict(body=None), False),
        (dict(table="known"), True),
        (dict(table="unknown"), False),
    ],
)
def test_layers_that_run_in_rows(changed: dict, runs: bool) -> None:
    work = layer("x", "y", Tensors({"x": 8, "y": 8}))
    if "table" in changed:
        work.layer.table = changed.pop("table")  # type: ignore[misc]
        changed["table"] = TablePlace(0, 256)
    assert _in_rows(LayerWork(**{**vars(work), **changed})) == runs


def test_only_one_whole_image_runs_in_rows() -> None:
    tensors = Tensors({"x": 8, "y": 8})
    work = layer("x", "y", tensors)
    for shape in ((1, 8, 5), (2, 8, 5, 8), (1, 7, 5, 8)):
        tensors.shape = lambda name, shape=shape: shape  # type: ignore[method-assign, misc]
        assert not _in_rows(work)


# --- what a cascade takes


def test_what_a_layer_brings_in_is_outside_before() -> None:
    """But for its parameters."""
    work = layer("x", "y", Tensors({"x": 8, "y": 8}))
    images = {name: resident(place, 320) for name, place in (("x", 0), ("a", 512), ("here", 1024))}
    work.placements.update(images)
    parameters = Copy(Address(Region.CONSTANTS, 0), Address(Region.ACTIVATION, 2048), 64)
    brought = Copy(Address(Region.DATA, 640), Address(Region.ACTIVATION, 512), 320)
    arriving = Arrival(Placement(Address(Region.DATA, 0), 320), ROW, 8)
    work = LayerWork(
        **{**vars(work), "preloads": [parameters, brought], "arrivals": {"x": arriving}, "result": "sent"}
    )
    found = _stripped(work, SMALL)
    assert found.placements == {
        "x": arriving.source,
        "a": Placement(Address(Region.DATA, 640), 320),
        "here": images["here"],
        "y": Placement(OUTSIDE, 320),
    }
    assert (found.preloads, found.arrivals, found.result) == ([parameters], {}, None)


@pytest.mark.parametrize("cycles, found", [(979, 979), (980, None), (None, None)])
def test_a_cascade_is_clearly_better(cycles: int | None, found: int | None, monkeypatch) -> None:
    """Than 1000 cycles; or it does not fit."""
    first, then, _ = pair()
    asked = []

    def best(tiler: CascadeTiler, output: Placement) -> SimpleNamespace | None:
        asked.append((tiler.arena.used(), output))
        return None if cycles is None else SimpleNamespace(cycles=cycles)

    monkeypatch.setattr(CascadeTiler, "best", best)
    first.placements["x"] = resident(0, 320)
    first.placements["y"] = resident(512, 320)
    then.preloads.append(Copy(Address(Region.CONSTANTS, 0), Address(Region.ACTIVATION, 2048), 64))
    assert _estimated([first, then], 1000, SMALL, FULL_SPEED) == found
    end = SMALL.am_bytes
    # What it reads and its parameters are there; what is between the layers is not.
    assert asked == [([(end - 320, end), (end - 384, end - 320)], Placement(Address(Region.DATA, 0), 240))]


def test_a_cascade_whose_operands_do_not_fit() -> None:
    first, then, _ = pair()
    first.placements["x"] = resident(0, SMALL.am_bytes + 1)
    assert _estimated([first, then], 1 << 30, SMALL, FULL_SPEED) is None


# --- stripes


def tiler(*shown: Sent | None, pitches: dict[str, int] | None = None) -> CascadeTiler:
    first, then, _ = pair()
    arena = SimpleNamespace()
    return CascadeTiler([first, then], arena, SMALL, pitches or {}, FULL_SPEED, shown)  # type: ignore[arg-type]


@pytest.mark.parametrize("pitch", [0, 48])
def test_rows_that_are_kept(pitch: int) -> None:
    """They come to the start of the stripe, and go from where the next one begins."""
    made = tiler(pitches={"y": pitch} if pitch else {})
    row = pitch or ROW
    places = _Places([512], [OUTSIDE], resident(0, 240))
    stripe, after = StripeRows((2, 6), (4, 6)), StripeRows((4, 8), (6, 8))
    found = made._kept(0, places, [stripe], [after])
    assert found.restored == [Copy(OUTSIDE, Address(Region.ACTIVATION, 512), 2 * row)]
    assert found.saved == [Copy(Address(Region.ACTIVATION, 512 + 2 * row), OUTSIDE, 2 * row)]
    last = made._kept(0, places, [StripeRows((0, 4), (0, 4))], None)
    assert (last.restored, last.saved) == ([], [])
    again = made._kept(0, places, [stripe], [StripeRows((4, 8), (4, 8))])
    assert (len(again.restored), again.saved) == (1, [])


@pytest.mark.parametrize("pitch, apart", [(0, 0), (ROW, 0), (48, 48)])
def test_where_a_result_would_be_as_a_whole(pitch: int, apart: int) -> None:
    made = tiler(pitches={"y": pitch})
    place = made._place(0, 512, 3)
    assert place == Placement(Address(Region.ACTIVATION, 512 - 3 * (pitch or ROW)), 320, apart)


@pytest.mark.parametrize(
    "rows, first, last, wanted",
    [
        ((0, 2), 0, 320, (0, 80)),
        ((2, 5), 0, 320, (80, 200)),
        ((2, 5), 100, 180, (100, 180)),
        ((2, 5), 200, 320, None),
        ((2, 5), 199, 320, (199, 200)),
        ((2, 5), 0, 80, None),
        ((2, 5), 0, 81, (80, 81)),
    ],
)
def test_what_a_stripe_sends_outside(rows: tuple, first: int, last: int, wanted: tuple | None) -> None:
    here = resident(512, 320)
    shown = Sent(Address(Region.ACTIVATION, 0), OUTSIDE, last, first)
    found = tiler(shown, None)._leaving(0, StripeRows(rows, rows), here)
    if wanted is None:
        assert found is None
    else:
        assert found == Sent(here.address, OUTSIDE, wanted[1], wanted[0])
    assert tiler(shown, None)._leaving(1, StripeRows(rows, rows), here) is None
    assert tiler()._leaving(0, StripeRows(rows, rows), here) is None


def test_buffers_go_on_taking_turns() -> None:
    found = [_turned(Buffer((1, 2, 3), 8), turn).addresses for turn in range(4)]
    assert found == [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3)]


@pytest.mark.parametrize("rows, wanted", [(0, 1), (1, 1), (5, 5), (8, 8), (9, 8)])
def test_rows_of_boxes_in_stripes(rows: int, wanted: int) -> None:
    assert tiler()._extent(boxes(8), rows) == Extent(wanted, 5, 8)
