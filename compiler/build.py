"""The compiler: a TOSA integer graph to a program. The order of its stages can be read here.

    legalize   any TOSA operators      -> operators that layers are made of (passes.py lists the passes)
    fuse       operators               -> layers: one pass of the machine each, with its micro-program
    place      tensors                 -> addresses, as the layers come and go
    tile       layers and addresses    -> work: in which pieces each layer runs, with which buffers
    emit       work                    -> commands for the units, in blocks
    schedule   commands                -> one instruction stream with waits and signals, and the memory image

Place and tile return plans; only emit makes instructions. `search.py` makes plans and chooses one.
"""

import contextlib
import dataclasses
import gc
import itertools
import warnings
from collections.abc import Iterator, Sequence

from tosaic.compiler.cores.cores_plan import CoresPlan, faster_on_cores
from tosaic.compiler.cores.emission import CoresEmission
from tosaic.compiler.cost.transfers import load_cycles
from tosaic.compiler.emit.boot import emit_boot
from tosaic.compiler.emit.graph_emission import FieldOverflow, OnLayer, emit
from tosaic.compiler.emit.turns import TurnsEmission
from tosaic.compiler.ir import Graph, validate
from tosaic.compiler.ir.mapped_file import LARGE_BYTES, let_go
from tosaic.compiler.legalize.dead_channels import remove_dead_channels
from tosaic.compiler.legalize.integers import require_integers
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.place.address import Region
from tosaic.compiler.place.compression import METHODS, Method, WeightCoder
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.packed_rows import RowPacker
from tosaic.compiler.program import BootPart, DecodedBlock, Program, StatePort
from tosaic.compiler.schedule.image import (
    InstructionSequencer,
    InstructionStream,
    MemoryImage,
    lay_out,
    sequence,
)
from tosaic.compiler.search import Choices, ProgramPlan, plans_of, task_of
from tosaic.errors import InputError
from tosaic.hw.config import Config


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No garbage collection meanwhile: plans are millions of objects without cycles, which it would look at again and
    again. Afterwards it is as it was."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@without_collector()
def compile_graph(
    graph: Graph,
    config: Config,
    *,
    optimize: bool = True,
    cascades: bool = True,
    drop_dead_channels: bool = False,
    keep_layers: bool = False,
    compress: str | None = None,
    speed: MemorySpeed = FULL_SPEED,
    turns: int = 1,
    on_layer: OnLayer | None = None,
) -> Program:
    """Compiles `graph` for `config`.

    `drop_dead_channels` removes channels that carry nothing first (exact; tensors inside become smaller).
    `optimize=False` gives every operator a layer of its own, `cascades=False` runs every layer as a whole, and
    `keep_layers` leaves every layer's output in external memory (Program.kept). `compress="nnr"` stores constant
    weights as NNR streams where that is smaller. A boot part
    decodes them into external memory, once; every run does where that is predicted to be faster than to load them.
    With `compress="nnr-stream"` every run decodes all of them; a UserWarning tells where that is slower.
    `compress="fast"` packs weights that are then loaded in fewer cycles. `speed` is that of the external memory that
    the program shall be fast on; it runs on any. With `turns` the program, of one core and without states, runs the
    graph as often: its inputs and outputs are as many times as long along the first axis. Raises ModelError for an
    illegal graph, UnsupportedError for a legal one that this accelerator does not run, and where it has no decoder, and
    InputError for an unknown method.
    """
    if compress is not None and compress not in METHODS:
        raise InputError(f"weights cannot be compressed by {compress!r}; there is {', '.join(METHODS)}")
    coder = _coder(config, Method(compress), speed) if compress else None
    validate(graph)
    require_integers(graph)
    if drop_dead_channels:
        graph = remove_dead_channels(normalise(graph), config.columns)
    _let_go(graph)
    choices = Choices(
        config, optimize=optimize, cascades=cascades, keep_layers=keep_layers, coder=coder, speed=speed
    )
    task = task_of(graph, choices)
    found = plans_of(task)
    best = next(found)
    _let_go(task.graph)
    split = faster_on_cores(task, best) if turns == 1 else None
    if split is not None:
        with contextlib.suppress(FieldOverflow):
            return program_of_cores(split, best, graph, config)
    problem: FieldOverflow | None = None
    for plan in itertools.chain([best], found):
        try:
            program = _program(plan, graph, config, turns, on_layer)
            if isinstance(coder, WeightCoder):
                _warn_if_slower(program, coder, plan.cycles)
            return program
        except FieldOverflow as error:
            # Pieces of another plan are smaller, and so are their counts.
            problem = error
    assert problem is not None
    raise problem


def _let_go(graph: Graph) -> None:
    """Frees the memory of constants that lie in a mapped file."""
    for tensor in graph.tensors.values():
        if tensor.data is not None and tensor.data.nbytes >= LARGE_BYTES:
            let_go(tensor.data)


def _coder(config: Config, method: Method, speed: MemorySpeed) -> WeightCoder | RowPacker:
    if method is Method.FAST:
        return RowPacker(config, speed.bandwidth_bytes)
    return WeightCoder(config, method, speed.bandwidth_bytes)


def _program(
    plan: ProgramPlan, graph: Graph, config: Config, turns: int, on_layer: OnLayer | None
) -> Program:
    """Emits and schedules a plan."""
    memories = plan.memories
    sequencer = InstructionSequencer(config)
    if turns > 1:
        emission = TurnsEmission(config, memories, plan.inputs, plan.outputs, turns)
        blocks = emission.emit(plan.main, on_layer, sequencer.take)
        plan = dataclasses.replace(plan, inputs=emission.all_inputs, outputs=emission.all_outputs)
    else:
        blocks = emit(plan.main, config, memories, on_layer, sequencer.take)
    streams = [sequencer.stream(blocks.all)]
    image = _image(streams, memories.external, config)
    program = _assembled(plan, streams, image, memories.external, graph, config)
    program.memory_blocks = memories.history.blocks()
    program.kept = [port.port(image.base, plan.orders) for port in plan.kept]
    program.states = [
        StatePort(
            **vars(port.port(image.base, {})),
            initial_address=None if begun is None else image.base[begun.region] + begun.offset,
        )
        for port, begun in plan.states
    ]
    return program


def program_of_cores(split: CoresPlan, single: ProgramPlan, graph: Graph, config: Config) -> Program:
    """Emits and schedules a plan for several cores; `single` is the best one for one core."""
    streams = [sequence(config, blocks) for blocks in CoresEmission(split, config).blocks()]
    image = _image(streams, split.external, config)
    macs = {layer.output: layer.macs for layer in single.layers}
    program = _assembled(split, streams, image, split.external, graph, config)
    # A layer of the plan is what core 0 computes of it.
    program.layers = [
        dataclasses.replace(layer, macs=macs.get(layer.output, layer.macs)) for layer in split.layers
    ]
    program.others = image.others
    return program


def _image(streams: Sequence[InstructionStream], external: ExternalMemory, config: Config) -> MemoryImage:
    """The memory image with the instructions of the cores 0, 1, ..., and those of the boot part."""
    first, *others = (stream.commands for stream in streams)
    boot = emit_boot(config, external)
    boot_commands = sequence(config, boot).commands if boot else []
    checked_word_bytes = config.word_bytes if config.load_crc else 0
    return lay_out(first, boot_commands, external, others, word_bytes=checked_word_bytes)


def _assembled(
    plan: ProgramPlan | CoresPlan,
    streams: Sequence[InstructionStream],
    image: MemoryImage,
    external: ExternalMemory,
    graph: Graph,
    config: Config,
) -> Program:
    """What programs for one core and for several have in common."""
    program = Program(
        config=config,
        image=b"",
        program_address=image.program_address,
        program_bytes=image.program_bytes,
        memory_bytes=image.memory_bytes,
        inputs=[port.port(image.base, plan.orders) for port in plan.inputs],
        outputs=[port.port(image.base, plan.orders) for port in plan.outputs],
        layers=plan.layers,
        weights=external.stored_weights,
        labels=dict(graph.labels),
        declared=dict(graph.declared),
        boot=_boot(image, external),
        instruction_layers=tuple(tuple(stream.layers) for stream in streams),
    )
    program.hold(image.parts)
    return program


def _boot(image: MemoryImage, external: ExternalMemory) -> BootPart | None:
    """Where the boot part is, and what it decodes."""
    if not external.boot:
        return None
    first = image.base[Region.UNPACKED]
    blocks = tuple(
        DecodedBlock(
            boot.placed.tensor,
            first + boot.target.offset,
            boot.placed.block.weights,
            boot.placed.block.crc32,
        )
        for boot in external.boot
    )
    return BootPart(image.boot_address, image.boot_bytes, blocks)


def _warn_if_slower(program: Program, coder: WeightCoder, plain_cycles: int) -> None:
    """UserWarning where every run decodes weights that are loaded faster as they are."""
    streamed = [weights for weights in program.weights if weights.coded and not weights.at_boot]
    decoding = sum(weights.decode_cycles for weights in streamed)
    loading = load_cycles(sum(weights.bytes for weights in streamed), coder.bytes_per_cycle)
    if decoding > loading:
        warnings.warn(
            f"each run decodes weights for about {decoding:,} cycles, and would load them in {loading:,}; without "
            f"compression it is predicted to take {plain_cycles:,}: compress by {Method.NNR.value!r} to decode once",
            stacklevel=4,  # past the context manager around compile_graph
        )
