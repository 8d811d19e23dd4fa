"""What was opened, made ready to run: compiled for the accelerator, or checked for golden."""

import dataclasses
import functools
from collections.abc import Callable

from tosaic.compiler.batches import compile_batch
from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, unsigned_ports, validate
from tosaic.compiler.legalize.custom import without_custom
from tosaic.compiler.memory_speed import FULL_SPEED, MemorySpeed
from tosaic.compiler.program import Program
from tosaic.driver.arguments import NodeArg, argument
from tosaic.driver.configuration import DEFAULT_CONFIG
from tosaic.driver.encodings import Encodings
from tosaic.driver.kept_programs import KeptProgram
from tosaic.driver.models import Progress
from tosaic.driver.state import SessionState
from tosaic.errors import InputError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """How a graph is compiled, see `compile_graph`."""

    optimize: bool = True
    drop_dead_channels: bool = False
    keep_layers: bool = False
    compress: str | None = None
    progress: Progress | None = None
    speed: MemorySpeed = FULL_SPEED
    single: Graph | None = None
    """The graph of one sample of a batch of `samples`; None where there is none."""
    samples: int = 1


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model that can run."""

    graph: Graph | None
    """The graph; None for a compiled program."""
    program: Program | None
    """The program; None on golden."""
    config: Config
    inputs: list[NodeArg]
    outputs: list[NodeArg]
    state: SessionState


def load(
    opened: Graph | Program, encodings: Encodings, config: Config | None, golden: bool, how: CompileOptions
) -> Loaded:
    """The model for a configuration (None: a program's own, or the default one), for golden or for the accelerator.

    Raises InputError where the options contradict each other or the target, and what `compile_graph` raises."""
    if how.drop_dead_channels and how.keep_layers:
        raise InputError(
            "layers cannot be compared with golden when dead channels are removed: leave out one of them"
        )
    if golden:
        return _for_golden(opened, encodings, config or get_config(DEFAULT_CONFIG))
    if isinstance(opened, Program):
        program = _compiled_before(opened, config, how)
    else:
        program = _compiled(opened, config or get_config(DEFAULT_CONFIG), how)
    graph = opened if isinstance(opened, Graph) else None
    unsigned = unsigned_ports(graph) if graph is not None else ()
    inputs, outputs, states = (
        [argument(port, encodings, those, program.declared.get(port.name)) for port in ports]
        for ports, those in (
            (program.inputs, unsigned),
            (program.outputs, unsigned),
            (program.states, ()),
        )
    )
    return Loaded(
        graph,
        program,
        program.config,
        inputs,
        outputs,
        SessionState(
            states,
            {
                port.name: port.initial(program.image if port.initial_address is not None else b"")
                for port in program.states
            },
        ),
    )


def _for_golden(opened: Graph | Program, encodings: Encodings, config: Config) -> Loaded:
    if isinstance(opened, Program):
        raise InputError(
            "a compiled program cannot run on golden, which needs the graph: give the .tosa file"
        )
    validate(opened)
    unsigned = unsigned_ports(opened)
    inputs, outputs, states = (
        [argument(opened.tensors[name], encodings, unsigned, opened.declared.get(name)) for name in names]
        for names in (opened.run_inputs, opened.run_outputs, opened.states)
    )
    initial = {
        each.name: opened.states[each.name].initial.astype(each.numpy).reshape(each.shape) for each in states
    }
    return Loaded(opened, None, config, inputs, outputs, SessionState(states, initial))


def _compiled_before(program: Program, config: Config | None, how: CompileOptions) -> Program:
    if config is not None and program.config.hash != config.hash:
        raise InputError(
            f"the program was compiled for configuration {program.config.name}, not {config.name}: "
            f"compile the model for {config.name}, or do not name a configuration"
        )
    if how.compress is not None:
        raise InputError("a compiled program cannot be compressed: compile the model again with it")
    return program


def _compiler(graph: Graph, how: CompileOptions) -> Callable[..., Program]:
    """What compiles a graph, or the batch that it is."""
    if how.single is None:
        return functools.partial(compile_graph, graph)
    return functools.partial(compile_batch, how.single, how.samples)


def _compiled(graph: Graph, config: Config, how: CompileOptions) -> Program:
    progress = how.progress
    place = None
    # The compiler warns where compressed weights are slower, each time.
    if how.compress is None:
        options = {
            "optimize": how.optimize,
            "drop_dead_channels": how.drop_dead_channels,
            "keep_layers": how.keep_layers,
            "speed": dataclasses.asdict(how.speed),
        }
        place = KeptProgram(without_custom(graph), config, options)
        if (found := place.read()) is not None:
            return found
    program = _compiler(graph, how)(
        config=config,
        optimize=how.optimize,
        drop_dead_channels=how.drop_dead_channels,
        keep_layers=how.keep_layers,
        compress=how.compress,
        speed=how.speed,
        on_layer=(lambda name, i, n: progress(f"compile {name}", i, n)) if progress else None,
    )
    if place is not None:
        place.keep(program)
    return program
