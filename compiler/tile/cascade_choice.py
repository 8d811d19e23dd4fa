"""Which layers of a plan had better run as cascades."""

import dataclasses

from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Address, Region
from tosaic.compiler.place.arena import Arena
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.tile.box_search import Room, cheapest
from tosaic.compiler.tile.cascade import Chain
from tosaic.compiler.tile.cascade_tiles import CascadeCuts, body_of
from tosaic.compiler.tile.convolution import convolution_boxes
from tosaic.compiler.tile.cost import work_cycles
from tosaic.compiler.tile.work import (
    ArrayBody,
    CascadeWork,
    ChoiceWork,
    GraphPlan,
    LayerWork,
    LoopWork,
    PoolBody,
)
from tosaic.hw.config import Config

Work = LayerWork | CascadeWork | LoopWork | ChoiceWork

_MOST_LAYERS = 4
"""Layers of a cascade at most: each one needs memory for a stripe, and more rows are computed again."""
_WORTH = 0.99
"""A cascade is proposed where it is predicted to take less than this share of the cycles of its layers."""


def propose(plan: GraphPlan, config: Config, speed: MemorySpeed) -> list[Chain]:
    """The cascades that together save most of the predicted cycles, in order, by the numbers of the plan's steps."""
    works = [step.work for step in plan.steps]
    plain = [work_cycles(work, config, speed) if isinstance(work, LayerWork) else 0 for work in works]
    linked = [False, *(_linked(first, then) for first, then in zip(works, works[1:], strict=False))]
    # From the last layer on: what the rest costs, and the cascade that begins here.
    rest, begins = [0.0] * (len(works) + 1), [0] * len(works)
    for first in reversed(range(len(works))):
        rest[first], begins[first] = plain[first] + rest[first + 1], first
        for last in range(first + 1, min(first + _MOST_LAYERS, len(works))):
            if not linked[last]:
                break
            members = [work for work in works[first : last + 1] if isinstance(work, LayerWork)]
            if all(work.placements[work.output].resident for work in members[:-1]):
                continue  # Nothing between them leaves the activation memory as it is.
            if _decodes_again(members, config):
                break
            cycles = _estimated(members, sum(plain[first : last + 1]), config, speed)
            if cycles is not None and cycles + rest[last + 1] < rest[first]:
                rest[first], begins[first] = cycles + rest[last + 1], last
    found, step = [], 0
    while step < len(works):
        if begins[step] > step:
            found.append((step, begins[step]))
        step = begins[step] + 1
    return found


def worthwhile(plan: GraphPlan, plain: GraphPlan, config: Config, speed: MemorySpeed) -> list[Chain]:
    """The cascades of a plan that are predicted to take fewer cycles than the same layers of the `plain` plan do."""
    found, position = [], 0
    costs = [
        work_cycles(step.work, config, speed) if isinstance(step.work, LayerWork) else 0
        for step in plain.steps
    ]
    for step in plan.steps:
        if not isinstance(step.work, CascadeWork):
            position += 1
            continue
        chain = (position, position + len(step.work.members) - 1)
        position = chain[1] + 1
        if work_cycles(step.work, config, speed) < sum(costs[chain[0] : position]):
            found.append(chain)
    return found


def _in_rows(work: Work) -> bool:
    """Whether a layer can run on some output rows after others, whatever is in between."""
    if not isinstance(work, LayerWork) or not isinstance(work.body, ArrayBody | PoolBody):
        return False
    graph, layer, window = work.tensors.graph, work.layer, _window(work.body)
    shape = work.tensors.shape(layer.output)
    if len(shape) != 4 or shape[:2] != (1, window.oh) or work.params.source is not None or work.scales:
        return False
    if layer.table is not None and graph.const(layer.table) is None:
        return False
    if isinstance(work.body, PoolBody):
        return True
    plan = work.body.plan
    return plan.weights.packing is None and not plan.layout.batched and not plan.strips


def _window(body: ArrayBody | PoolBody) -> Window:
    """The window over whole image rows, which the boxes of a layer by itself may have left."""
    return body.plan.window if isinstance(body, ArrayBody) else body.cut.window


def _linked(first: Work, then: Work) -> bool:
    """Whether one layer may hand its result to the next stripe by stripe: nobody else reads it."""
    if not (_in_rows(first) and _in_rows(then)):
        return False
    assert isinstance(first, LayerWork) and isinstance(then, LayerWork)
    tensors, name, base = first.tensors, first.layer.output, then.layer.base
    window, source = _window(body_of(then)), _window(body_of(first))
    return (
        base is not None
        and base.inputs[0] == name
        and base.inputs.count(name) == 1
        and (window.view.storage, window.view.offset, window.ih) == (name, 0, source.oh)
        and name not in tensors.graph.outputs
        and tensors.sharing(name) == [name]
        and tensors.index.consumers(name) == [base]
    )


def _decodes_again(members: list[LayerWork], config: Config) -> bool:
    """Whether stripes might decode weights again. The weights of a cascade stay in weight memory if they fit it beside
    what a block leaves free at its end, since a decoded block does not run over the end."""
    plans = [work.body.plan for work in members if isinstance(work.body, ArrayBody)]
    decoded = [plan for plan in plans if plan.weights.address.region is Region.CODED]
    blocks = [plan.weights.group_bytes or 0 for plan in decoded if not plan.weights.unpacked]
    groups = {(tile.group_address, tile.group_bytes) for plan in plans for tile in plan.tiles}
    unit = config.columns**2 if config.most_row_parts > 1 else 1
    taken = sum(-(-size // unit) * unit for _, size in groups)
    return bool(blocks) and taken + max(blocks) > config.wm_bytes


def _estimated(members: list[LayerWork], plain: int, config: Config, speed: MemorySpeed) -> float | None:
    """Predicted cycles of a cascade that has the activation memory for itself, but for what its layers read there and
    their parameters; None where they are not clearly fewer than `plain`."""
    arena, last = Arena(config.am_bytes, config.columns), members[-1]
    made = {work.output for work in members}
    stripped = [_stripped(work, config) for work in members]
    inside = {
        name: place.bytes
        for work in stripped
        for name, place in work.placements.items()
        if place.resident and name not in made
    }
    parameters = (copy.size_bytes for work in stripped for copy in work.preloads)
    if any(arena.allocate(size, high=True) is None for size in (*inside.values(), *parameters)):
        return None
    result = Placement(Address(Region.DATA, 0), last.tensors.size_bytes(last.layer.output))
    found = cheapest(CascadeCuts(stripped, result, config, speed, {}), Room(arena))
    return found.cycles if found is not None and found.cycles < _WORTH * plain else None


def _stripped(work: LayerWork, config: Config) -> LayerWork:
    """A layer without what it brings into activation memory for itself, but for its parameters."""
    sources = {copy.target: copy for copy in work.preloads}
    places = {}
    for name, place in work.placements.items():
        copy = sources.get(place.address)
        arrival = work.arrivals.get(name)
        if arrival is not None:
            place = arrival.source
        elif copy is not None:
            place = Placement(copy.source, copy.size_bytes)
        places[name] = place
    kept = [copy for copy in work.preloads if copy.source.region is Region.CONSTANTS]
    body = work.body
    if isinstance(body, ArrayBody):
        body = dataclasses.replace(body, cut=convolution_boxes(body.plan, config))
    return dataclasses.replace(
        work, body=body, placements=places, preloads=kept, arrivals={}, buffers={}, result=None
    )
