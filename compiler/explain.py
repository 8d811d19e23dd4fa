"""Shows what a graph becomes in every stage of the compiler, as text: for people who want to follow one network."""

import dataclasses
from collections.abc import Iterator

from tosaic.compiler.cores.cores_plan import faster_on_cores
from tosaic.compiler.cores.explain_segments import segments
from tosaic.compiler.cost.clock import program_cycles
from tosaic.compiler.emit.commands import Block, Command
from tosaic.compiler.emit.graph_emission import emit
from tosaic.compiler.explain_cascade import address, buffer, cascade, placement
from tosaic.compiler.ir import Graph, validate
from tosaic.compiler.legalize.passes import legalize
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.schedule.image import sequence
from tosaic.compiler.schedule.prediction import block_works
from tosaic.compiler.search import Choices, Task, plans_of
from tosaic.compiler.tile.work import (
    ArrayBody,
    CascadeWork,
    ChoiceWork,
    GraphPlan,
    LayerWork,
    LoopWork,
    PoolBody,
    Step,
)
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES


def explain(graph: Graph, config: Config, speed: MemorySpeed = FULL_SPEED) -> Iterator[str]:
    """Lines of text: the graph after each pass, the layers with their micro-programs, where their tensors are and how
    they are cut, the work of the units, and the instruction stream. Raises what `build.compile_graph` raises."""
    validate(graph)
    yield from _heading("the model")
    yield from _operators(graph)
    after: list[tuple[str, Graph]] = []
    prepared = legalize(
        graph, config, lambda name, rewritten: after.append((name, rewritten)), turn_ports=True
    )
    before = list(_operators(graph))
    for name, rewritten in after:
        yield from _heading(f"1 legalize: {name}")
        lines = list(_operators(rewritten))
        yield from ["no change"] if lines == before else lines
        before = lines
    task = Task(prepared, set(graph.tensors), Choices(config, speed=speed))
    plan = next(plans_of(task))
    split = faster_on_cores(task, plan)
    if split is not None:
        yield from _heading("cores: segments of layers, and how their results are cut")
        yield from segments(split)
        yield "what follows is the plan for one core, for comparison"
    yield from _heading("2 fuse: layers and their micro-programs")
    for step in _walk(plan.main):
        for layer in step.work.members if isinstance(step.work, CascadeWork) else [step]:
            yield from _layer(layer)
    yield from _heading("3 place, 4 tile: where the tensors of each layer are, and in which pieces it runs")
    for step in _walk(plan.main):
        yield from _places(step)
    blocks = emit(plan.main, config, plan.memories, costed=True).all
    yield f"predicted: {program_cycles(block_works(blocks), config, speed)} cycles"
    yield from _heading("5 emit: work of the units, and the bytes that it reads and writes")
    for block in blocks:
        yield from _work(block)
    yield from _heading("6 schedule: the instruction stream")
    for number, item in enumerate(sequence(config, blocks).commands):
        yield f"{INSTRUCTION_BYTES * number:6}  {_command(item)}"


@dataclasses.dataclass(frozen=True)
class ExplainedLayer:
    """A layer of the plan."""

    graph: str
    """The graph or branch that it is in."""
    step: Step
    lines: list[str]
    """What `explain` says of it in stages 2 to 4."""


def planned(
    graph: Graph, config: Config, speed: MemorySpeed = FULL_SPEED
) -> tuple[Graph, list[ExplainedLayer]]:
    """The graph that the plan is for, and its layers. Raises what `build.compile_graph` raises."""
    validate(graph)
    prepared = legalize(graph, config)
    plan = next(plans_of(Task(prepared, set(graph.tensors), Choices(config, speed=speed))))
    return prepared, list(_planned(plan.main, prepared.name))


def _planned(plan: GraphPlan, graph: str) -> Iterator[ExplainedLayer]:
    for step in plan.steps:
        branches = step.root.attributes
        if isinstance(step.work, LoopWork):
            yield from _planned(step.work.condition, branches["cond_graph"])
            yield from _planned(step.work.body, branches["body_graph"])
        elif isinstance(step.work, ChoiceWork):
            yield from _planned(step.work.then.graph, branches["then_graph"])
            yield from _planned(step.work.otherwise.graph, branches["else_graph"])
        for layer in step.work.members if isinstance(step.work, CascadeWork) else [step]:
            yield ExplainedLayer(graph, layer, [*_layer(layer), *_places(step)])


def _heading(text: str) -> Iterator[str]:
    yield from ("", text, "-" * len(text))


def _operators(graph: Graph) -> Iterator[str]:
    for operator in graph.operators:
        inputs = ", ".join(_tensor(graph, name) for name in operator.inputs)
        outputs = ", ".join(_tensor(graph, name) for name in operator.outputs)
        yield f"{operator.op}: {inputs} -> {outputs}"


def _tensor(graph: Graph, name: str) -> str:
    tensor = graph.tensors[name]
    shape = ",".join(map(str, tensor.shape))
    return f"{'constant ' if tensor.data is not None else ''}{name} {tensor.dtype.name.lower()}[{shape}]"


def _walk(plan: GraphPlan) -> Iterator[Step]:
    for step in plan.steps:
        if isinstance(step.work, LoopWork):
            yield from (*_walk(step.work.condition), *_walk(step.work.body))
        elif isinstance(step.work, ChoiceWork):
            yield from (*_walk(step.work.then.graph), *_walk(step.work.otherwise.graph))
        yield step


def _layer(step: Step) -> Iterator[str]:
    operators = " + ".join(step.info.operators)
    if not isinstance(step.work, LayerWork):
        yield f"layer {step.number}: {operators} (branches between the layers above)"
        return
    layer = step.work.layer
    yield f"layer {step.number}: {operators} -> {step.info.output}"
    if isinstance(step.work.body, ArrayBody):
        yield f"    array: {layer.base}, {step.info.macs} multiplications"
    for number, load in enumerate(layer.program.loads):
        yield f"    load stream {number}: {load.tensor} {load.element.name.lower()}"
    for instruction in layer.program.instructions:
        yield f"    {instruction}"


def _places(step: Step) -> Iterator[str]:
    work = step.work
    if isinstance(work, CascadeWork):
        yield from cascade(work)
        return
    yield f"layer {step.number}: {step.info.output}"
    if not isinstance(work, LayerWork):
        return
    for name, place in work.placements.items():
        yield f"    {'writes' if name == work.output else 'reads'} {name}: {placement(place)}"
    for copy in work.preloads:
        yield f"    brings in {copy.size_bytes} bytes from {address(copy.source)} to {address(copy.target)}"
    for name, arrival in work.arrivals.items():
        yield f"    {name} arrives row by row, {arrival.rows} rows of {arrival.row_bytes} bytes"
    for key, found in work.buffers.items():
        yield f"    buffer {buffer(key, found)}"
    if isinstance(work.body, ArrayBody | PoolBody):
        extent, count = work.body.extent, len(list(work.body.cut.boxes(work.body.extent)))
        yield (
            f"    {count} boxes of at most {extent.rows} rows, {extent.columns} columns, {extent.channels} channels"
        )
    if work.result is not None:
        yield f"    sends the result to {address(work.result.target)}"


def _work(block: Block) -> Iterator[str]:
    for label in block.labels:
        yield f"{label.name}:"
    for work in block.work:
        spans = [
            f"{verb} {span.region.name.lower()}[{span.start}:{span.end}]"
            for verb, found in (("reads", work.reads), ("streams", work.streams), ("writes", work.writes))
            for span in found
        ]
        yield f"{work.unit.name}: {', '.join(spans) or 'no memory'}"
        for item in (*work.configuration, *work.commands):
            yield f"    {_command(item)}"
    if block.branch is not None:
        yield f"branch {block.branch[0].name} to {block.branch[1].name}"


def _command(item: Command) -> str:
    where = f" ({item.address.region.name.lower()})" if item.address is not None else ""
    return f"{item.settled(0)}{where}"
