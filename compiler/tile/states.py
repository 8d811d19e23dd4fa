"""What a program remembers from run to run: it lies at one place in external memory, which a run reads, then writes."""

import dataclasses

from tosaic.compiler.fuse.layer import Layer
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Placer
from tosaic.compiler.place.tensors import Tensors


@dataclasses.dataclass(frozen=True)
class StatePlan:
    """How the states of a graph come to their places; names are storage names."""

    in_place: dict[str, str]
    """Result -> the state that it is next. Nothing reads the state any more when the result is made, which is therefore
    written over it."""
    at_the_end: dict[str, str]
    """State -> what is copied over it when the graph has run."""
    shown: list[str]
    """Outputs of the graph that are states as they were before."""


def plan_states(tensors: Tensors, layers: list[Layer], last_use: dict[str, int]) -> StatePlan:
    """Decides it for a graph whose layers run in order; `last_use` tells the last layer that reads each tensor."""
    graph, storage = tensors.graph, tensors.storage
    following = {name: storage[state.output] for name, state in graph.states.items()}
    made = {storage[name]: index for index, layer in enumerate(layers) for name in layer.root.outputs}
    shown = [name for name in graph.run_outputs if storage[name] in following]
    read_at_the_end = {storage[name] for name in shown}
    read_at_the_end |= {result for name, result in following.items() if result != name}
    in_place: dict[str, str] = {}
    at_the_end: dict[str, str] = {}
    for name, result in following.items():
        over = result in made and last_use.get(name, -1) < made[result] and name not in read_at_the_end
        if over and result not in in_place:
            in_place[result] = name
        elif result != name:
            at_the_end[name] = result
    return StatePlan(in_place, at_the_end, shown)


def settle(placer: Placer, plan: StatePlan) -> None:
    """Gives results that are written over a state its place; states have theirs."""
    for result, state in plan.in_place.items():
        placer.homes[result] = placer.ports[state].address


def moves(placer: Placer, plan: StatePlan) -> tuple[list[Placement], list[Placement]]:
    """What is copied at the end, and where to: outputs that are states first, for these change then."""

    def before(name: str) -> Placement:
        # In external memory, where a state is as it was, its rows not apart.
        port = placer.ports.get(name) if name in placer.tensors.graph.states else None
        return placer.locate(name) if port is None else Placement(port.address, port.bytes)

    sources = [before(placer.tensors.storage[name]) for name in plan.shown]
    targets = [placer.show_apart(name) for name in plan.shown]
    sources += [before(result) for result in plan.at_the_end.values()]
    targets += [placer.ports[name] for name in plan.at_the_end]
    return sources, [Placement(port.address, port.bytes) for port in targets]
