"""Plans a cascade with the placer: parameters, places for what goes in and out, and stripes."""

import dataclasses
from collections.abc import Sequence

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import addresses_of
from tosaic.compiler.place.placement import Placement, Sent
from tosaic.compiler.tile.box_search import Found, Room, cheapest
from tosaic.compiler.tile.cascade import Heights
from tosaic.compiler.tile.cascade_tiles import CascadeCuts
from tosaic.compiler.tile.layer_plan import LayerPlanBuilder, LayerPlanner
from tosaic.compiler.tile.work import ArrayBody, LayerWork


@dataclasses.dataclass(frozen=True)
class PlannedCascade:
    """A cascade's layers and stripes, and what it leaves behind for the placer."""

    members: list[LayerWork]
    macs: list[int]
    stripes: list[tuple[int, LayerWork]]
    own_blocks: list[int]


class CascadePlanner:
    """Plans one cascade. `wanted_outside` tells for each layer whether its result must come to external memory, too."""

    def __init__(self, planner: LayerPlanner, layers: Sequence[Layer], wanted_outside: Sequence[bool]):
        self.planner, self.placer, self.layers, self.wanted = planner, planner.placer, layers, wanted_outside
        self._own_blocks: list[int] = []

    def plan(self) -> PlannedCascade | None:
        """The cascade; None, with the placer as it was, if it does not fit."""
        try:
            members = self._members()
        except OutOfMemory:
            self._undo()
            return None
        if any(work.params.source is not None for work in members):
            self._undo()
            return None
        self.placer.release_pending()
        found = self._placed(members)
        if found is None:
            self._undo()
            return None
        cuts, stripes = found
        shown = [self._shown(layer, wanted) for layer, wanted in zip(self.layers, self.wanted, strict=True)]
        works = cuts.stripes(stripes.tiles, stripes.buffers, self.placer.memories.external.reserve, shown)
        last = members[-1]
        members[-1] = dataclasses.replace(last, placements={**last.placements, last.output: cuts.output})
        macs = [work.body.plan.macs if isinstance(work.body, ArrayBody) else 0 for work in members]
        self._withdraw()
        return PlannedCascade(members, macs, works, self._own_blocks + addresses_of(stripes.buffers))

    def _members(self) -> list[LayerWork]:
        members = []
        for layer in self.layers:
            # Every stripe finds another layer's table in the unit.
            self.planner.table_in_unit = None
            step = LayerPlanBuilder(self.planner, layer)
            self._own_blocks = step.own_blocks = self._own_blocks
            members.append(step.member())
            if layer is not self.layers[-1]:
                self.placer.pass_through(layer.output)
        self.planner.table_in_unit = None
        return members

    def _placed(self, members: list[LayerWork]) -> tuple[CascadeCuts, Found[Heights]] | None:
        """The stripes, with the result in activation memory, unless outside takes fewer cycles. Buffers are taken."""
        placer, output = self.placer, self.layers[-1].output
        storage, room = placer.tensors.storage[output], Room(placer.memories.arena)
        beside = Placement(Address(Region.DATA, 0), placer.tensors.size_bytes(output))
        outside = cheapest(self._cuts(members, beside), room)
        if outside is not None:
            self._free(outside)
        if placer.place_resident(output):
            place = placer.placements[storage]
            cuts = self._cuts(members, place)
            inside = cheapest(cuts, room)
            if inside is not None and (outside is None or inside.cycles <= outside.cycles):
                return cuts, inside
            if inside is not None:
                self._free(inside)
            placer.arena.free(place.address.offset)
            placer.withdraw(storage)
        if outside is None:
            return None
        placer.memories.crowded = True
        cuts = self._cuts(members, placer.external(output))
        buffers = room.take(cuts.sizes(outside.tiles))
        assert buffers is not None
        return cuts, dataclasses.replace(outside, buffers=buffers)

    def _free(self, found: Found[Heights]) -> None:
        self.placer.arena.give_back(addresses_of(found.buffers))

    def _shown(self, layer: Layer, wanted: bool) -> Sent | None:
        return self.planner.result(layer, wanted)

    def _cuts(self, members: list[LayerWork], output: Placement) -> CascadeCuts:
        placer = self.placer
        whole = {number for number, wanted in enumerate(self.wanted) if wanted}
        return CascadeCuts(members, output, placer.config, placer.memories.speed, placer.pitches, whole)

    def _withdraw(self) -> None:
        for layer in self.layers[:-1]:
            self.placer.withdraw(layer.output)

    def _undo(self) -> None:
        self.placer.arena.give_back(self._own_blocks)
        self._withdraw()
        self.planner.table_in_unit = None
