"""The plan of a network on several cores."""

import dataclasses
from collections.abc import Mapping

from tosaic.compiler.cores.choice import Chooser, Segment
from tosaic.compiler.cores.network import Network, network_of
from tosaic.compiler.cores.share_plan import PlannedShare, SharePlanner
from tosaic.compiler.cost.transfers import bytes_ahead, segments_cycles
from tosaic.compiler.cut.boxes import NotCut
from tosaic.compiler.machine import KIND, Kind
from tosaic.compiler.place.address import Address, Span
from tosaic.compiler.place.external import ExternalMemory, PlacedPort
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.search import Choices, ProgramPlan, Task
from tosaic.compiler.tile.demands import computing_cycles
from tosaic.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class PlannedSegment:
    """A segment, and what each core does in it."""

    segment: Segment
    shares: dict[int, PlannedShare]
    """The share of each core."""
    written: dict[int, list[Span]]
    """What of the network's tensors each core makes in external memory."""
    ahead_bytes: dict[int, int]
    """Bytes of constants that can come, by core, until the cores that it waits for are ready."""


@dataclasses.dataclass(frozen=True)
class CoresPlan:
    """Everything that is decided before instructions are made."""

    network: Network
    cores: int
    segments: list[PlannedSegment]
    external: ExternalMemory
    inputs: list[PlacedPort]
    outputs: list[PlacedPort]
    border_cycles: int
    """Cycles between two segments."""

    @property
    def cycles(self) -> int:
        """Predicted, with what passes between segments."""
        return segments_cycles([each.segment.cycles for each in self.segments], self.border_cycles)

    @property
    def orders(self) -> Mapping[str, tuple[int, ...]]:
        """Inputs and outputs whose axes lie in another order than the model's, see `Graph.orders`."""
        return self.network.graph.orders

    @property
    def layers(self) -> list[LayerInfo]:
        """Those that core 0 has a part in, which are all, as it marks them."""
        return [
            layer
            for planned in self.segments
            if 0 in planned.shares
            for layer in planned.shares[0].plan.layers
        ]


def faster_on_cores(task: Task, single: ProgramPlan) -> CoresPlan | None:
    """The plan for the cores that there are, where it is predicted to take fewer cycles than `single`, the best plan
    for one core; None where it is not, and where the network cannot be split."""
    if task.choices.config.cores == 1:
        return None
    try:
        split = plan_cores(task)
    except UnsupportedError:
        return None
    return split if split is not None and split.cycles < single.cycles else None


def plan_cores(task: Task, choose: type[Chooser] = Chooser) -> CoresPlan | None:
    """The plan for the cores that there are; None where the network is not split at all: it has states, control flow,
    or outputs that nothing computes. UnsupportedError where a share does not fit."""
    choices, prepared = task.choices, task.graph
    if choices.keep_layers or not choices.optimize or prepared.states:
        return None
    if any(KIND.get(operator.op) is Kind.CONTROL_FLOW for operator in prepared.operators):
        return None
    network = network_of(prepared, choices.config)
    made = {layer.output for layer in network.layers}
    storage = network.tensors.storage
    sources = [storage[name] for name in prepared.outputs]
    if not set(sources) <= made or len(set(sources)) < len(sources):
        return None
    planner = SharePlanner(network, task.names, choices)
    chooser = choose(planner, choices.config.cores)
    while True:
        placed = _placed(planner, chooser, sources)
        if isinstance(placed, CoresPlan):
            return placed
        chooser.refuse(placed)


def _placed(planner: SharePlanner, chooser: Chooser, sources: list[str]) -> CoresPlan | Segment:
    """The plan, or a segment of which a share does not fit."""
    segments, cores = chooser.segments(), chooser.cores
    network, external = planner.network, ExternalMemory()
    tensors, addresses = network.tensors, dict[str, Address]()
    for name in network.graph.inputs:
        addresses[name] = external.reserve(tensors.size_bytes(name), tensors[name])
    planned: list[PlannedSegment] = []
    left: dict[int, list[tuple[int, int]]] = {}
    for segment in segments:
        for name in network.results(segment.first, segment.last):
            addresses[name] = external.reserve(tensors.size_bytes(name), tensors[name])
        speed = planner.choices.speed.shared(planner.choices.config, segment.grid.cores)
        choices = dataclasses.replace(planner.choices, speed=speed)
        shares, written = {}, {}
        found = planner.shares(segment.first, segment.last, segment.grid)
        assert not isinstance(found, NotCut), found.reason
        for core, share in found.items():
            try:
                plan = planner.plan(share, external, addresses, choices, left.get(core, ()))
            except UnsupportedError:
                return segment
            left[core] = plan.memories.last_used
            external = plan.memories.external
            shares[core] = PlannedShare(share, plan)
            written[core] = [
                planner.place(name, box).span(addresses[name]) for name, box in share.wanted.items()
            ]
        before = planned[-1] if planned else None
        ahead = {core: _ahead_bytes(core, before, choices, chooser.border_cycles) for core in shares}
        planned.append(PlannedSegment(segment, shares, written, ahead))

    def port(name: str, source: str) -> PlacedPort:
        return PlacedPort(tensors[name], addresses[source], tensors.size_bytes(name))

    return CoresPlan(
        network,
        cores,
        planned,
        external,
        [port(name, name) for name in network.graph.inputs],
        [port(name, source) for name, source in zip(network.graph.outputs, sources, strict=True)],
        chooser.border_cycles,
    )


def _ahead_bytes(core: int, before: PlannedSegment | None, choices: Choices, border_cycles: int) -> int:
    """What a core can load from the time when it has all for the segment `before` to that when the results of all
    cores are in external memory."""
    if before is None:
        return 0
    config, cycles = choices.config, border_cycles
    if core in before.shares:
        lasts = [list(share.plan.main.walk())[-1] for share in before.shares.values()]
        cycles += max(computing_cycles(work, config) for work in lasts)
    else:
        cycles += before.segment.cycles
    return bytes_ahead(cycles, config, choices.speed)
