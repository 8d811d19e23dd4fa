"""Plans one layer: brings its operands in, places its result and cuts it into pieces that fit."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from tosaic.compiler.cost.boxes import BoxWork
from tosaic.compiler.cost.transfers import load_cycles
from tosaic.compiler.fuse.indexed import plan_indexed
from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.fuse.moves import plan_move
from tosaic.compiler.fuse.translate import PerChannel, RunTimeScales
from tosaic.compiler.ir import Operator
from tosaic.compiler.machine import KIND, WINDOWED, Kind
from tosaic.compiler.machine_numbers import (
    AHEAD_TABLE_AM_PART,
    ARRIVING_BOX_BYTES,
    IM2COL_BUFFERS,
    OTHER_BOXES_SHARE,
    PARAMETERS_AM_PART,
)
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.place.buffers import Buffers, addresses_of
from tosaic.compiler.place.geometry import Window, window_of
from tosaic.compiler.place.params import ParamBlock, pack_line, pack_params, pack_table, scale_places
from tosaic.compiler.place.placement import Arrival, Copy, Placement, Sent
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.tile.arriving import RowsInPassing
from tosaic.compiler.tile.box_cost import BoxCost
from tosaic.compiler.tile.box_search import Cuts, Found, Room, beside_recent, cheapest
from tosaic.compiler.tile.convolution import (
    ConvolutionPlan,
    box_work,
    convolution_boxes,
    plan_convolution,
    works_in_blocks,
)
from tosaic.compiler.tile.elementwise import check_elements, passing, plan_elementwise
from tosaic.compiler.tile.gather_scatter import GatherScatterPlanner
from tosaic.compiler.tile.im2col import Strips
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling
from tosaic.compiler.tile.layout_copy import BlockLimits, goes_straight, plan_copy
from tosaic.compiler.tile.mapping import Asked
from tosaic.compiler.tile.mappings import choose
from tosaic.compiler.tile.packer import Packer
from tosaic.compiler.tile.plan_memo import PlanMemo
from tosaic.compiler.tile.pool import pool_boxes, pool_work
from tosaic.compiler.tile.reduction import plan_reduction
from tosaic.compiler.tile.row_search import plan_row_search
from tosaic.compiler.tile.views import FoldedCopies
from tosaic.compiler.tile.window_tiles import StripCuts, WindowCuts, WindowLayer
from tosaic.compiler.tile.work import (
    ArrayBody,
    Body,
    CopyThrough,
    LayerParameters,
    LayerWork,
    Moved,
    PoolBody,
    TablePlace,
)
from tosaic.hw.constants import MULTIPLIER_BYTES, SHIFT_BYTES


@dataclasses.dataclass(frozen=True)
class PlannedLayer:
    """A layer's work, and what it leaves behind for the placer."""

    work: LayerWork
    own_blocks: list[int]
    """Addresses of the blocks of activation memory that it alone uses: constants and buffers, to be freed after it."""
    macs: int = 0


@dataclasses.dataclass(frozen=True)
class LayerCut:
    """The pieces that a layer runs in."""

    body: Body
    buffers: Buffers
    cycles: float = 0
    """Predicted cycles of a layer with a window."""


class LayerPlanner:
    """Plans the layers of one graph with its placer, one after the other."""

    def __init__(self, placer: Placer, packer: Packer, views: FoldedCopies, memo: PlanMemo):
        self.placer, self.packer, self.views, self.memo = placer, packer, views, memo
        self.tensors, self.config = placer.tensors, placer.config
        self.table_in_unit: Address | None = None
        """The table that the vector unit holds when the next layer begins, by its place in external memory."""

    def plan(self, layer: Layer, *, wanted_outside: bool) -> PlannedLayer:
        """The layer's work. `wanted_outside`: its result must come to external memory, too.

        Raises OutOfMemory where the layer does not fit beside the tensors that are resident, and UnsupportedError
        where it cannot run."""
        if KIND[layer.root.op] in (Kind.LAYOUT, Kind.GATHER_SCATTER):
            return self._copying(layer, wanted_outside)
        return LayerPlanBuilder(self, layer).plan(wanted_outside)

    def _copying(self, layer: Layer, wanted_outside: bool) -> PlannedLayer:
        """An operator that only moves elements."""
        placer = self.placer
        reads = self.views.reads(layer)
        straight = self._straight(layer, reads)
        beside = self.tensors.size_bytes(layer.output)
        looks_up = KIND[layer.root.op] is Kind.GATHER_SCATTER
        ahead = {name for name in reads if looks_up and self.comes_ahead(name)}
        brought = [name for name in reads if name not in {self.tensors.storage[each] for each in straight}]
        preloads = [placer.bring(name, beside_bytes=beside, ahead=name in ahead) for name in brought]
        if self.tensors.storage[layer.output] not in placer.placements:
            placer.place_output(layer.output, reads)
        placer.release_pending()
        body: Moved
        if looks_up:
            rows = plan_indexed(self.tensors.graph, layer.root)
            search = plan_row_search(placer, rows, layer.output)
            if search is not None:
                self.table_in_unit = None
            body = search or GatherScatterPlanner(placer, rows, layer.output).plan()
            taken = body.addresses()
        else:
            move = plan_move(self.tensors.graph, layer.root)
            target = placer.placements[self.tensors.storage[layer.output]]
            element_bytes = self.tensors.element(layer.output).bytes
            body = plan_copy(placer, move, target, element_bytes, BlockLimits(), straight)
            taken = body.buffers.addresses()
        work = LayerWork(
            self.tensors,
            layer,
            body,
            self.placements(layer, reads),
            [copy for copy in preloads if copy is not None],
            self.result(layer, wanted_outside),
        )
        return PlannedLayer(work, taken)

    def comes_ahead(self, name: str) -> bool:
        """Whether a tensor is a constant that is small enough to come while earlier layers run."""
        small = self.config.am_bytes // AHEAD_TABLE_AM_PART
        return self.tensors[name].data is not None and self.tensors.size_bytes(name) <= small

    def _straight(self, layer: Layer, reads: list[str]) -> frozenset[str]:
        """The sources of a layout operator that LOAD brings to their places in its result, or in a block of it. They
        are outside, and nothing else reads them."""
        if KIND[layer.root.op] is not Kind.LAYOUT:
            return frozenset()
        placer, move, storage = self.placer, plan_move(self.tensors.graph, layer.root), self.tensors.storage
        element_bytes = self.tensors.element(layer.output).bytes
        found = frozenset(
            part.source
            for part in move.parts
            if part.source is not None
            and not placer.locate(storage[part.source]).resident
            and placer.dies_now(storage[part.source])
            and goes_straight(self.config, move, part.source, element_bytes)
        )
        if not found:
            return found
        for name in reads:
            placer.locate(name)
        placer.place_output(layer.output, reads, ahead=True)
        return found

    def placements(self, layer: Layer, reads: list[str]) -> dict:
        """Where the layer's tensors are now."""
        return {name: self.placer.placements[name] for name in [*reads, self.tensors.storage[layer.output]]}

    def result(self, layer: Layer, wanted_outside: bool) -> Sent | None:
        """The copy of a resident result that is wanted outside."""
        placement = self.placer.placements[self.tensors.storage[layer.output]]
        if not placement.resident or not wanted_outside:
            return None
        return self.placer.sent(layer.output)


class LayerPlanBuilder:
    """One layer on its way to a plan: a pass of the array or the vector unit."""

    def __init__(self, planner: LayerPlanner, layer: Layer):
        self.planner, self.layer = planner, layer
        self.placer, self.tensors, self.config = planner.placer, planner.tensors, planner.config
        self.reads = planner.views.reads(layer)
        self.arrivals: dict[str, Arrival] = {}
        self._left_outside: set[str] = set()
        """Tensors of which boxes fetch or send the parts that they need, though they might fit."""
        self.preloads: list[Copy] = []
        self._arriving_bytes = 0
        """Bytes of operands that come into activation memory as a whole."""
        self.own_blocks: list[int] = []
        self.window: Window | None = None
        self.convolution: ConvolutionPlan | None = None
        self.result: Sent | None = None

    def plan(self, wanted_outside: bool) -> PlannedLayer:
        layer, base = self.layer, self.layer.base
        check_elements(self.tensors, layer)
        if base is not None and KIND[base.op] in WINDOWED:
            self._windowed(base, in_stripes=False)
        params = self._placed(self._params())
        scales = self._scales(params)
        table, lines = self._table(), self._lines()
        if base is None and layer.reduction is None:
            self._left_outside |= passing(self.placer, layer, self.reads, wanted_outside=wanted_outside)
        for name in self.reads:
            ahead = self.planner.comes_ahead(name)
            copy = self.placer.bring(name, ahead=ahead) if name not in self._left_outside else None
            if copy is not None:
                self.preloads.append(copy)
                self._arriving_bytes += copy.size_bytes
        if self.tensors.storage[layer.output] in self._left_outside:
            self.placer.external(layer.output)
        else:
            self.placer.place_output(layer.output, self.reads)
        self.result = self.planner.result(layer, wanted_outside)
        cut = self._leaves_room(self._tiled(params), params)
        work = LayerWork(
            self.tensors,
            layer,
            cut.body,
            self.planner.placements(layer, self.reads),
            self.preloads,
            self.result,
            cut.buffers,
            self.arrivals,
            params,
            table,
            scales,
            lines,
        )
        macs = self.convolution.macs if self.convolution is not None else 0
        return PlannedLayer(work, self.own_blocks + addresses_of(cut.buffers), macs)

    def _leaves_room(self, found: LayerCut, params: LayerParameters) -> LayerCut:
        """The cut of a convolution whose image is outside. Its result goes there, too, where the memory that this frees
        for larger boxes brings more than the way out, and in again, costs."""
        placer, output = self.placer, self.tensors.storage[self.layer.output]
        place, blocks = placer.placements[output], addresses_of(found.buffers)
        image = self.window.view.storage if self.window is not None else output
        fixed = output in {*placer.parts_outside, *placer.taken_over}
        if self.convolution is None or fixed or not place.resident or placer.placements[image].resident:
            return found
        try:
            with placer.arena.without([*blocks, place.address.offset]):
                roomy = self._tiled(params, outside=[output])
                roomy_blocks = placer.arena.give_back(addresses_of(roomy.buffers))
        except OutOfMemory:
            return found
        rate = placer.memories.speed.bytes_per_cycle(self.config)
        later = 0 if placer.dies_now(output) else load_cycles(place.bytes, float(rate))
        if roomy.cycles + later >= OTHER_BOXES_SHARE * found.cycles:
            return found
        placer.arena.give_back(blocks)
        placer.move_outside(self.layer.output)
        placer.arena.occupy(roomy_blocks)
        self.result = None
        return roomy

    def member(self) -> LayerWork:
        """The layer as one of a cascade: with its parameters, but with the boxes of a machine in which its image and
        its result are resident, wherever they are."""
        layer, base = self.layer, self.layer.base
        assert base is not None
        check_elements(self.tensors, layer)
        self._windowed(base, in_stripes=True)
        params, table, lines = self._placed(self._params()), self._table(), self._lines()
        assert self.window is not None
        plan = self.convolution
        cut = (
            convolution_boxes(plan, self.config)
            if plan is not None
            else pool_boxes(self.tensors, layer, self.window)
        )
        body: Body = PoolBody(cut, cut.largest())
        if plan is not None:
            body = ArrayBody(plan, cut, cut.largest(), in_blocks=False)
        places = {name: self.placer.locate(name) for name in self.reads}
        return LayerWork(
            self.tensors, layer, body, places, self.preloads, None, params=params, table=table, lines=lines
        )

    def _windowed(self, base: Operator, *, in_stripes: bool) -> None:
        """Finds the form of the image that a window slides over, and how a convolution maps to the array."""
        views, graph = self.planner.views, self.tensors.graph
        name = views.view(base).storage
        loads = self.layer.program.loads[self.layer.program.body_loads :]
        alone = not in_stripes and not any(self.tensors.storage[load.tensor] == name for load in loads)
        asked = Asked(
            graph,
            self.config,
            base,
            window_of(graph, base, views.view(base)),
            views.matrix(base) if KIND[base.op] is Kind.ARRAY else None,
            alone and not self.placer.locate(name).resident and self.layer.continued is None,
            self.placer.memories.speed,
        )
        strips = KIND[base.op] is Kind.ARRAY and asked.outside and choose(asked).strips
        if strips or (alone and self._comes_in_columns(asked.window)):
            self._left_outside.add(name)
        elif alone and len(self.tensors.shape(name)) == 4 and base.inputs[0] == name:
            # The first rows are worked on while the others come.
            arrival = self.placer.bring_by_rows(name)
            if arrival is not None:
                self.arrivals[name] = arrival
        self.window = window_of(graph, base, views.view(base))
        if KIND[base.op] is Kind.ARRAY:
            asked = dataclasses.replace(asked, window=self.window, outside=strips)
            self.convolution = plan_convolution(self.tensors, self.layer, asked, self.planner.packer)
            self.own_blocks += self.convolution.weights.buffers()

    def _comes_in_columns(self, window: Window) -> bool:
        """Whether the boxes of an image that is outside had better fetch their columns: nothing is read twice, and the
        array computes meanwhile."""
        name, size = window.view.storage, window.ih * window.view.pitch
        outside = not self.placer.locate(name).resident and self.placer.dies_now(name)
        return window.columns_apart and size >= 2 * ARRIVING_BOX_BYTES and outside

    # --- parameters and table

    def _params(self) -> ParamBlock:
        layer, columns, plan = self.layer, self.config.columns, self.convolution
        scales = layer.per_channel
        if isinstance(scales, RunTimeScales):
            scales = PerChannel(*np.zeros((2, self.tensors.shape(scales.shifts)[0]), np.int64))
        if plan is not None:
            bias = plan.bias if layer.program.bias else None
            scales = scales and scales.repeated(plan.pixels)
            return pack_params(plan.channels, plan.tile_channels, columns, bias, scales)
        if scales is not None:
            channels = self.tensors.shape(layer.output)[-1]
            return pack_params(channels, columns, columns, layer.bias, scales)
        return ParamBlock(b"", 0, 0, False)

    def _scales(self, params: LayerParameters) -> list[CopyThrough]:
        """Brings multipliers and shifts that are computed at run time to their places."""
        scales, columns, plan = self.layer.per_channel, self.config.columns, self.convolution
        if not isinstance(scales, RunTimeScales):
            return []
        (channels,) = self.tensors.shape(scales.shifts)
        lanes, tile = (plan.channels, plan.tile_channels) if plan is not None else (channels, columns)
        sources = [self.placer.locate(self.tensors.storage[name]) for name in dataclasses.astuple(scales)]
        return [
            CopyThrough(
                Placement(source.address + size * place.first, size * place.count),
                Address(Region.ACTIVATION, params.address + offset),
            )
            for place in scale_places(lanes, tile, columns, channels, bias_bytes=params.bias_bytes)
            for source, size, offset in zip(
                sources, (MULTIPLIER_BYTES, SHIFT_BYTES), (place.multipliers, place.shifts), strict=True
            )
        ]

    def _placed(self, block: ParamBlock) -> LayerParameters:
        """Brings parameters in, unless they take more than a quarter of the memory: then each box brings its own."""
        shown = LayerParameters(block.tile_bytes, block.bias_bytes, block.scale)
        if not block.data:
            return shown
        source = self.placer.memories.external.add_constant(block.data)
        known = not isinstance(self.layer.per_channel, RunTimeScales)
        if known and len(block.data) > self.config.am_bytes // PARAMETERS_AM_PART:
            return dataclasses.replace(shown, source=source)
        copy = self.placer.bring_constants(source, len(block.data), self.own_blocks)
        self.preloads.append(copy)
        return dataclasses.replace(shown, address=copy.target.offset)

    def _table(self) -> TablePlace | None:
        name = self.layer.table
        if name is None:
            return None
        values = self.tensors.graph.const(name)
        if values is None:
            # Computed at run time, as entries already.
            self.planner.table_in_unit = None
            place, entries = self.placer.locate(self.tensors.storage[name]), self.tensors.shape(name)[0]
            if place.resident:
                return TablePlace(place.address.offset, entries)
            source, size_bytes = place.address, place.bytes
        else:
            data, entries = pack_table(values)
            source, size_bytes = self.placer.memories.external.add_constant(data), len(data)
            if source == self.planner.table_in_unit:
                return None
            self.planner.table_in_unit = source
        copy = self.placer.bring_constants(source, size_bytes, self.own_blocks)
        self.preloads.append(copy)
        return TablePlace(copy.target.offset, entries)

    def _lines(self) -> dict[int, int]:
        """Brings the lines along the channels in, repeated for pixels that share vectors."""
        if not self.layer.lines:
            return {}
        assert self.convolution is not None
        found = {}
        for stream, line in self.layer.lines.items():
            element = self.layer.program.loads[stream].element
            data = pack_line(np.tile(line, self.convolution.pixels), element)
            source = self.placer.memories.external.add_constant(data)
            copy = self.placer.bring_constants(source, len(data), self.own_blocks)
            self.preloads.append(copy)
            found[stream] = copy.target.offset
        return found

    # --- pieces

    def _tiled(self, params: LayerParameters, outside: Sequence[str] = ()) -> LayerCut:
        """The pieces of the layer. `outside`: resident tensors of which boxes are planned as if they were not."""
        output = self.tensors.storage[self.layer.output]
        external = [
            name
            for name in [*self.reads, output]
            if name in outside or not self.placer.placements[name].resident
        ]
        param_bytes = params.tile_bytes if params.source is not None else 0
        if self.layer.reduction is not None:
            known = self.planner.memo.passes
            return LayerCut(
                *plan_reduction(self.placer, self.layer, external, known, arriving_bytes=self._arriving_bytes)
            )
        if self.window is None:
            return LayerCut(*plan_elementwise(self.placer, self.layer, external, param_bytes))
        return self._in_boxes(self.window, external, output, param_bytes)

    def _in_boxes(self, window: Window, external: list[str], output: str, param_bytes: int) -> LayerCut:
        """The boxes of a layer with a window."""
        plan, stored = self.convolution, self.tensors.element(self.layer.output)
        if plan is not None:
            cut = convolution_boxes(plan, self.config)
            resident = {*self.reads, output}.difference(external)
            pitched = any(self.placer.placements[name].pitch for name in resident)
            if external and not pitched and self.layer.continued is None:
                cut = dataclasses.replace(cut, window=plan.window_of_boxes(self.config))
            work: Callable[..., BoxWork] = functools.partial(box_work, plan, self.config)
        else:
            cut = pool_boxes(self.tensors, self.layer, window)
            work = functools.partial(pool_work, cut, self.layer.program, stored, self.config)
        wanted = WindowLayer(self.layer, cut, external, output, param_bytes)
        content = plan.work_content if plan is not None else None
        beats = self.layer.program.beats(stored)
        if plan is not None:
            beats = self.layer.drain_beats(stored, window.oh * window.ow, self.config)
        cost = BoxCost(self.config, self.placer.memories.speed, work, beats, content)
        cuts: Cuts[Tiling] = WindowCuts(self.placer, wanted, cost)
        room = Room(self.placer.arena, apart=[] if output in external else self._banks_written(output))
        coming = sum(arrival.source.bytes for arrival in self.arrivals.values())
        leaving = self.result.size_bytes if self.result is not None else 0
        if plan is not None and plan.strips:
            strips = Strips(window, plan.layout, self.config, self.placer.memories.speed)
            cuts, room = (
                StripCuts(self.placer, wanted, cost, strips),
                dataclasses.replace(room, turns=IM2COL_BUFFERS),
            )
        elif (
            (coming or leaving)
            and not external
            and not param_bytes
            and not self._in_blocks(cut, cut.largest())
        ):
            cuts = RowsInPassing(cut, cost, coming, leaving)

        def search(room: Room) -> Found[Tiling] | None:
            return self._cheapest(cuts, room, wanted, cost)

        outside = bool(external or param_bytes)
        if outside:
            self.placer.release_pending(keep=self.placer.beside or 0)
        alone = not outside or self.placer.beside is None
        found = search(room) if alone else beside_recent(self.placer, room, search)
        if found is None:
            raise OutOfMemory(
                f"{self.layer.root}: one pixel of {self.tensors[self.layer.output]} and its inputs do not fit the "
                "activation memory"
            )
        tiling = found.tiles
        if plan is None:
            return LayerCut(PoolBody(tiling.cut, tiling.extent), found.buffers, found.cycles)
        in_blocks = self._in_blocks(tiling.cut, tiling.extent)
        return LayerCut(ArrayBody(plan, tiling.cut, tiling.extent, in_blocks), found.buffers, found.cycles)

    def _cheapest(
        self, cuts: Cuts[Tiling], room: Room, wanted: WindowLayer, cost: BoxCost
    ) -> Found[Tiling] | None:
        """What the search finds, or has found for an equal layer."""
        key, boxes = self._content(cuts, room, wanted, cost), self.planner.memo.boxes
        if key is None or key not in boxes:
            found = cheapest(cuts, room)
            if key is not None and found is not None:
                boxes[key] = found.tiles, found.cycles
            return found
        tiles, cycles = boxes[key]
        tiles = dataclasses.replace(tiles, cut=dataclasses.replace(tiles.cut, window=wanted.cut.window))
        buffers = room.take(cuts.sizes(tiles))
        assert buffers is not None
        return Found(tiles, buffers, cycles)

    def _content(self, cuts: Cuts[Tiling], room: Room, wanted: WindowLayer, cost: BoxCost) -> Hashable | None:
        """All that the choice looks at, without names; None where not all is known."""
        if cost.work_content is None or isinstance(cuts, StripCuts):
            return None
        cut = dataclasses.replace(wanted.cut, window=wanted.cut.window.without_name())
        name, tensors = wanted.cut.window.view.storage, self.tensors
        loads = self.layer.program.loads[self.layer.program.body_loads :]
        buffers = tuple(
            (
                each == name,
                each == wanted.output,
                self.placer.placements[each].bytes if wanted.layer.continued else 0,
                tuple(load.element for load in loads if tensors.storage[load.tensor] == each),
            )
            for each in wanted.external
        )
        coming = sum(arrival.source.bytes for arrival in self.arrivals.values())
        leaving = self.result.size_bytes if self.result is not None else 0
        memory = (tuple(room.arena.gaps()), room.turns, tuple(room.apart), room.most_bytes)
        price = (cost.beats, cost.work_content)
        return type(cuts).__name__, cut, buffers, wanted.param_bytes, coming, leaving, memory, price

    def _in_blocks(self, cut: ImageBoxes, extent: Extent) -> bool:
        return self.convolution is not None and works_in_blocks(self.convolution, cut, extent, self.config)

    def _banks_written(self, output: str) -> list[tuple[int, int]]:
        """The banks of a resident output, which VECTOR writes."""
        placement, bank = self.placer.placements[output], self.config.am_bank_bytes
        start = placement.address.offset
        return [(start // bank * bank, -(-(start + placement.bytes) // bank) * bank)]
