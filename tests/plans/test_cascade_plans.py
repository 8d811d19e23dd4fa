"""What the plan of a cascade takes and leaves behind, in activation memory and outside."""

from types import SimpleNamespace

import pytest
from cascade_graphs import SMALL_MEMORY, inverted_bottleneck

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.tile.cascade_choice import _decodes_again
from tosaic.compiler.tile.cascade_plan import CascadePlanner, PlannedCascade
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.work import ArrayBody, LayerWork
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

FIRST = 1
"""Number of the first layer of the cascade."""


class Planned:
    """A graph's first layer, then the others as a cascade. All but `left_bytes` of the activation
    memory are taken then, if that is told."""

    def __init__(self, graph: Graph, config: Config, left_bytes: int = 0):
        self.memories = Memories(Arena(config.am_bytes, config.columns), config.am_bytes)
        planner = GraphPlanner(
            legalize(graph, config), set(graph.tensors), PlanContext(config, self.memories, True)
        )
        self.placer, self.layers = planner.placer, planner.layers[FIRST:]
        for name in graph.inputs:
            self.placer.external(name)
        planner._step(0)
        self.placer.release_pending()
        if left_bytes:
            self.memories.arena.allocate(self.memories.arena.largest_gap_bytes() - left_bytes)
        self.used, self.outside = self.memories.arena.used(), self.memories.external.data_bytes
        wanted = [layer is self.layers[-1] for layer in self.layers]
        self.found = CascadePlanner(planner._layer_planner, self.layers, wanted).plan()

    def placed(self) -> list[Layer]:
        return [layer for layer in self.layers if layer.output in self.placer.placements]


@pytest.mark.parametrize("wide", [48, 96])
def test_rows_that_are_kept_have_their_place_outside(wide: int) -> None:
    """Two rows of the image of `wide` channels that the depthwise layer reads for one stripe and the next; of the other
    layers' images none."""
    planned = Planned(inverted_bottleneck(28, 1, wide=wide), SMALL_MEMORY)
    assert isinstance(planned.found, PlannedCascade)
    copies = [copy for _, work in planned.found.stripes for copy in work.saved]
    assert {copy.size_bytes for copy in copies} == {2 * 28 * wide}
    assert len({copy.target for copy in copies}) == 1
    result_bytes = 28 * 28 * 16
    assert planned.memories.external.data_bytes - planned.outside == result_bytes + 2 * 28 * wide


def test_what_passes_through_is_nowhere_behind_the_cascade() -> None:
    planned = Planned(inverted_bottleneck(28, 1), SMALL_MEMORY)
    assert len(planned.layers) == 3 and planned.placed() == planned.layers[-1:]
    # The placer frees the buffers, which are all that there is beside what was there before.
    assert planned.found is not None
    blocks = {start for start, _ in planned.memories.arena.used()} - {start for start, _ in planned.used}
    assert blocks == set(planned.found.temporary)


@pytest.mark.parametrize("left_bytes", [64, 2048, 4096])
def test_a_cascade_that_does_not_fit_leaves_nothing(left_bytes: int) -> None:
    """Its parameters do not, or its stripes."""
    planned = Planned(inverted_bottleneck(28, 1), SMALL_MEMORY, left_bytes)
    assert planned.found is None and planned.placed() == []
    assert planned.memories.arena.used() == planned.used


def member(
    region: Region, blobs: list[tuple[int, int]], *, group_bytes: int | None, unpacked: bool
) -> LayerWork:
    """A layer of the array whose tiles' weights come in groups, (number, bytes)."""
    weights = SimpleNamespace(address=Address(region, 0), group_bytes=group_bytes, unpacked=unpacked)
    tiles = [
        SimpleNamespace(group_address=Address(region, number << 20), group_bytes=size)
        for number, size in blobs
    ]
    plan = SimpleNamespace(weights=weights, tiles=tiles)
    return SimpleNamespace(body=ArrayBody(plan, None, None, in_blocks=False))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "machine, sizes, again",
    [
        # 64 KiB of weight memory.
        ("base,weight_banks=1", [65536 - 1000], False),
        ("base,weight_banks=1", [65536 - 999], True),
        ("base,weight_banks=1", [30000, 65536 - 31000], False),
        ("base,weight_banks=1", [30000, 65536 - 30999], True),
        ("base,weight_banks=1", [30001, 65536 - 31001], False),
        # Weights begin at whole steps of 256 bytes.
        ("base,weight_banks=2", [65536 - 1024], False),
        ("base,weight_banks=2", [65536 - 1023], True),
        ("base,weight_banks=2", [257, 65536 - 1280], True),
        ("base,weight_banks=4", [1, 65536 - 1280], False),
        ("base,weight_banks=4", [257, 65536 - 1280], True),
    ],
)
def test_weights_that_stripes_would_decode_again(machine: str, sizes: list[int], again: bool) -> None:
    """They stay, beside what a block of 1000 bytes leaves free at the end. Two tiles share the first group."""
    config = get_config(f"{machine},wm_bytes=64K")
    blobs = list(enumerate(sizes))
    members = [member(Region.CODED, [*blobs, blobs[0]], group_bytes=1000, unpacked=False)]
    assert _decodes_again(members, config) == again


@pytest.mark.parametrize(
    "region, group_bytes, unpacked",
    [(Region.CONSTANTS, 1000, False), (Region.CODED, 1000, True), (Region.UNPACKED, 1000, False)],
)
def test_weights_that_nothing_decodes_are_loaded_again(
    region: Region, group_bytes: int, unpacked: bool
) -> None:
    found = member(region, [(0, 1 << 20)], group_bytes=group_bytes, unpacked=unpacked)
    assert not _decodes_again([found], get_config("base"))
    coded = member(Region.CODED, [], group_bytes=None, unpacked=False)
    assert _decodes_again([found, coded], get_config("base"))


@pytest.mark.parametrize("over, again", [(0, False), (1, True)])
@pytest.mark.parametrize("blocks", [[None], [1000], [None, 1000], [1000, 500]])
def test_weights_stay_beside_the_largest_block(blocks: list[int | None], over: int, again: bool) -> None:
    """The blocks of some layers, which may have no size. Weights that are loaded take memory, too."""
    config = get_config("base,weight_banks=1,wm_bytes=64K")
    members = [
        member(Region.CODED, [(number, 100)], group_bytes=block, unpacked=False)
        for number, block in enumerate(blocks)
    ]
    rest = (64 << 10) - 100 * len(blocks) - max(block or 0 for block in blocks)
    members.append(member(Region.CONSTANTS, [(0, rest + over)], group_bytes=None, unpacked=False))
    assert _decodes_again(members, config) == again
