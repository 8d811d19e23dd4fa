"""Makes plans of a program and orders them by predicted cycles."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.machine_numbers import RESIDENCY_SHARES, RESIDENT_PLAN_SHARE
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Address
from tosaic.compiler.place.arena import Arena, OutOfMemory
from tosaic.compiler.place.compression import WeightCoder
from tosaic.compiler.place.external import ExternalMemory, PlacedPort
from tosaic.compiler.place.packed_rows import RowPacker
from tosaic.compiler.place.placement import PartOutside
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.program import LayerInfo
from tosaic.compiler.tile.cascade import Chain
from tosaic.compiler.tile.cascade_choice import propose, worthwhile
from tosaic.compiler.tile.demands import predicted_cycles
from tosaic.compiler.tile.graph_plan import GraphPlanner, PlanContext
from tosaic.compiler.tile.plan_memo import PlanMemo
from tosaic.compiler.tile.work import GraphPlan
from tosaic.errors import UnsupportedError
from tosaic.hw.config import Config


@dataclasses.dataclass(frozen=True)
class Choices:
    """What the user chose."""

    config: Config
    optimize: bool = True
    cascades: bool = True
    """Layers may run as cascades."""
    keep_layers: bool = False
    coder: WeightCoder | RowPacker | None = None
    speed: MemorySpeed = FULL_SPEED


@dataclasses.dataclass(frozen=True)
class ProgramPlan:
    """Everything that is decided about a program before its instructions are made."""

    main: GraphPlan
    memories: Memories
    inputs: list[PlacedPort]
    outputs: list[PlacedPort]
    kept: list[PlacedPort]
    states: list[tuple[PlacedPort, Address | None]]
    """What a run leaves for the next one, and the constant that it begins as unless that is zeros."""
    layers: list[LayerInfo]
    cycles: int
    """Predicted from what the layers compute and transfer."""
    residency: float = RESIDENCY_SHARES[0]
    orders: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Inputs and outputs whose axes lie in another order than the model's, see `Graph.orders`."""


@dataclasses.dataclass(frozen=True)
class Outside:
    """External memory of which a part is in use already. A plan has a copy of its own."""

    external: ExternalMemory = dataclasses.field(default_factory=ExternalMemory)
    homes: Mapping[str, Address] = dataclasses.field(default_factory=dict)
    """Where inputs and outputs of the graph are, if not anywhere."""
    parts: Mapping[str, PartOutside] = dataclasses.field(default_factory=dict)
    """What of outputs is wanted there, if not all of them, densely."""
    lingering: Sequence[tuple[int, int]] = ()
    """Activation memory, (start, end), that units may be using still: it is taken last."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A legalized graph to plan; `names` are the model's tensors."""

    graph: Graph
    names: set[str]
    choices: Choices
    outside: Outside = dataclasses.field(default_factory=Outside)
    memo: PlanMemo = dataclasses.field(default_factory=PlanMemo)


def task_of(graph: Graph, choices: Choices) -> Task:
    """The task that a legal integer graph is."""
    prepared = legalize(graph, choices.config, optimize=choices.optimize, turn_ports=True)
    return Task(prepared, set(graph.tensors), choices)


def plans_of(task: Task) -> Iterator[ProgramPlan]:
    """The plans of a legalized graph that fit, the best first.

    The plans of all residencies are compared. Raises UnsupportedError where none fits."""
    problem: OutOfMemory | None = None
    choices = task.choices
    best: ProgramPlan | None = None
    order: list[_Known] = []
    residencies = iter(RESIDENCY_SHARES)
    for residency in residencies:
        try:
            plan = _plan(task, residency)
        except OutOfMemory as error:
            problem = error
            continue
        order = ranked([*order, _Known(residency, plan.cycles)])
        best = plan if order[0].residency == residency else best
        if not plan.memories.crowded:
            # With less residency everything is at least as far away.
            break
        del plan
    if best is not None and choices.optimize and choices.cascades:
        cascaded = _with_cascades(best, task)
        if cascaded is not None:
            yield cascaded
    if best is not None:
        yield best
    # The others are asked for where fields of an instruction overflow: with other places, other instructions are made.
    for residency in (*(known.residency for known in order[1:]), *residencies):
        with contextlib.suppress(OutOfMemory):
            yield _plan(task, residency)
    if problem is not None:
        raise UnsupportedError(
            f"{problem}; use a configuration with more activation memory than {choices.config.name!r}"
        )


@dataclasses.dataclass(frozen=True)
class _Known:
    """What is kept of a plan while others are made: a large network's plans together are larger than its program."""

    residency: float
    cycles: int


class _Predicted(Protocol):
    @property
    def cycles(self) -> int: ...


_Plan = TypeVar("_Plan", bound=_Predicted)


def ranked(found: list[_Plan]) -> list[_Plan]:
    """Plans in the order of residency, but for those that are clearly better than all before them."""
    order: list[_Plan] = []
    for plan in found:
        if order and plan.cycles < RESIDENT_PLAN_SHARE * order[0].cycles:
            order.insert(0, plan)
        else:
            order.append(plan)
    return order


def _with_cascades(plain: ProgramPlan, task: Task) -> ProgramPlan | None:
    """A plan in which layers run as cascades where that is predicted to take fewer cycles; None where it is nowhere."""
    choices = task.choices
    chains, config = propose(plain.main, choices.config, choices.speed), choices.config
    best: ProgramPlan | None = None
    while chains:
        try:
            plan = _plan(task, plain.residency, chains)
        except OutOfMemory:
            break
        if plan.cycles < (best or plain).cycles:
            best = plan
        kept = worthwhile(plan.main, plain.main, config, choices.speed)
        if kept == chains:
            break
        chains = kept
    return best


def _plan(task: Task, residency: float, chains: Sequence[Chain] = ()) -> ProgramPlan:
    graph, choices, outside = task.graph, task.choices, task.outside
    config = choices.config
    arena = Arena(config.am_bytes, config.columns)
    external = outside.external.copy()
    memories = Memories(arena, int(config.am_bytes * residency), external, speed=choices.speed)
    context = PlanContext(config, memories, choices.optimize, choices.coder, memo=task.memo)
    planner = GraphPlanner(graph, task.names, context, keep=choices.keep_layers, chains=chains)
    planner.placer.settle(outside.homes, outside.parts)
    if outside.lingering:
        arena.occupy(outside.lingering)
        planner.placer.pending_free.append([start for start, _ in outside.lingering])
    for name in graph.inputs:
        planner.placer.external(name)
    main = planner.plan()

    placer = planner.placer
    return ProgramPlan(
        main,
        memories,
        inputs=[placer.ports[name] for name in graph.run_inputs],
        outputs=[placer.output_port(name) for name in graph.run_outputs],
        kept=[
            dataclasses.replace(placer.ports[name], tensor=graph.tensors[planner.shown(name)])
            for name in planner.kept
        ],
        states=[
            (port, memories.external.add_constant(state.initial.astype(port.tensor.dtype.numpy)))
            if state.initial.any()
            else (port, None)
            for port, state in ((placer.ports[name], state) for name, state in graph.states.items())
        ],
        layers=context.infos,
        cycles=predicted_cycles(main, config, choices.speed),
        residency=residency,
        orders=graph.orders,
    )
