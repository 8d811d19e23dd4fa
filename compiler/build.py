"""The compiler: a TOSA integer graph to a program."""

import dataclasses
from collections.abc import Callable

from tosaic.compiler.emit.emitter import DATA_REGION, Emitter
from tosaic.compiler.ir import Graph, validate
from tosaic.compiler.legalize.dead_channels import remove_dead_channels
from tosaic.compiler.legalize.integers import require_integers
from tosaic.compiler.legalize.normalise import normalise
from tosaic.compiler.legalize.prepare import prepare
from tosaic.compiler.place.compression import METHODS, WeightCoder
from tosaic.compiler.place.memory import Arena, OutOfMemory
from tosaic.compiler.place.placer import Memories
from tosaic.compiler.program import Port, Program
from tosaic.compiler.schedule.blocks import Block, Label
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.tile.region import Context, FieldOverflow, Region
from tosaic.errors import InputError, UnsupportedError
from tosaic.hw.config import Config
from tosaic.hw.isa import INSTRUCTION_BYTES, ISA_HASH, Condition, Instruction, Opcode, encode, make

_RESIDENCY = (0.75, 0.5, 0.25, 0.125, 0.0)
"""Largest share of the activation memory one tensor may occupy, tried in turn until every layer fits."""

OnLayer = Callable[[str, int, int], None]
"""Told (layer, its number, how many there are)."""


def compile_graph(
    graph: Graph,
    config: Config,
    *,
    optimize: bool = True,
    drop_dead_channels: bool = False,
    keep_layers: bool = False,
    compress: str | None = None,
    on_layer: OnLayer | None = None,
) -> Program:
    """Compiles `graph` for `config`.

    `drop_dead_channels` removes channels that carry nothing first (exact; tensors inside become smaller).
    `optimize=False` gives every operator a layer of its own, `keep_layers` leaves every layer's output in external
    memory (Program.kept). `compress="nnr"` stores constant weights as NNR streams where that is smaller, which the
    machine decodes as it loads them. Raises ModelError for an illegal graph, UnsupportedError for a legal one that
    this accelerator does not run, and where it has no decoder, and InputError for an unknown method.
    """
    if compress is not None and compress not in METHODS:
        raise InputError(f"weights cannot be compressed by {compress!r}; there is {', '.join(METHODS)}")
    coder = WeightCoder(config) if compress else None
    validate(graph)
    require_integers(graph)
    if drop_dead_channels:
        graph = remove_dead_channels(normalise(graph), config.columns)
    names = set(graph.tensors)
    problem: OutOfMemory | FieldOverflow | None = None
    # Digits need whole pixels in memory: in a small one they may be what does not fit.
    with_digits = (True, False) if optimize and not keep_layers else (False,)
    # What only fits as part of a layer is split when the layer cannot be made so.
    graphs = [prepare(graph, config, fused=fused) for fused in ((True, False) if optimize else (False,))]
    attempts = [(g, share, digits) for g in graphs for digits in with_digits for share in _RESIDENCY]
    for prepared, residency, digits in attempts:
        memories = Memories(Arena(config.am_bytes, config.columns), int(config.am_bytes * residency))
        context = Context(config, Emitter(config), memories, optimize, digits, coder)
        try:
            program = _compile(Region(prepared, names, context, keep=keep_layers), on_layer)
            program.labels = dict(graph.labels)
            return program
        except (OutOfMemory, FieldOverflow) as error:
            problem = error
    assert problem is not None
    if isinstance(problem, FieldOverflow):
        raise UnsupportedError(f"{problem}; split the tensor into smaller ones")
    raise UnsupportedError(f"{problem}; use a configuration with more activation memory than {config.name!r}")


def _compile(main: Region, on_layer: OnLayer | None) -> Program:
    """The program of the outermost graph."""
    graph, placer = main.graph, main.placer
    for name in graph.inputs:
        placer.external(name)
    main.emit(on_layer)
    inputs = [placer.ports[name] for name in graph.inputs]
    outputs = [placer.output_port(name) for name in graph.outputs]
    kept = [_renamed(main, placer.ports[name]) for name in main.kept]
    return _layout(main.context, inputs, outputs, kept)


def _renamed(region: Region, port: Port) -> Port:
    name = region.shown(port.name)
    return dataclasses.replace(port, name=name, shape=tuple(region.graph.tensors[name].shape))


def _layout(context: Context, inputs: list[Port], outputs: list[Port], kept: list[Port]) -> Program:
    """Places constants, program and data one after the other, and fixes the addresses."""
    config, emitter = context.config, context.emitter
    instructions = _instructions(config, emitter.blocks.all)
    program_address = -(-emitter.constants.size_bytes // 4096) * 4096
    program_bytes = len(instructions) * INSTRUCTION_BYTES
    data_address = -(-(program_address + program_bytes) // 4096) * 4096
    code = b"".join(encode(_relocated(instruction, data_address)) for instruction in instructions)
    constants = emitter.constants.bytes()
    image = constants + bytes(program_address - len(constants)) + code

    def moved(port: Port) -> Port:
        address = port.address
        return dataclasses.replace(
            port, address=address - DATA_REGION + data_address if address >= DATA_REGION else address
        )

    return Program(
        config=config,
        image=image,
        program_address=program_address,
        program_bytes=program_bytes,
        memory_blocks=context.memories.history.blocks(),
        memory_bytes=-(-(data_address + context.memories.data_bytes) // 4096) * 4096,
        inputs=[moved(port) for port in inputs],
        outputs=[moved(port) for port in outputs],
        kept=[moved(port) for port in kept],
        layers=context.infos,
        weights=emitter.stored_weights,
    )


def _instructions(config: Config, blocks: list[Block]) -> list[Instruction]:
    """BEGIN, the blocks with their branches, END."""
    instructions = [make(Opcode.BEGIN, isa_hash=ISA_HASH, config_hash=config.hash)]
    places: dict[Label, int] = {}
    branches: dict[int, tuple[Condition, Label]] = {}
    for block in blocks:
        places |= {label: len(instructions) for label in block.labels}
        for item in interleave(block.tracker.items):
            instructions += item.instructions()
        if block.branch is not None:
            branches[len(instructions)] = block.branch
            instructions.append(make(Opcode.NOP))
    instructions.append(make(Opcode.END))
    for number, (condition, label) in branches.items():
        target = places[label] * INSTRUCTION_BYTES
        instructions[number] = make(Opcode.BRANCH, target=target, condition=condition)
    return instructions


def _relocated(instruction: Instruction, data_address: int) -> Instruction:
    address = instruction.fields.get("memory_address")
    if address is None or address < DATA_REGION:
        return instruction
    return make(
        instruction.opcode, **{**instruction.fields, "memory_address": address - DATA_REGION + data_address}
    )
