"""A model made ready for a target: compiled, or checked for golden."""

import dataclasses
from collections.abc import Callable

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import Graph, validate
from tosaic.compiler.program import Program
from tosaic.errors import InputError
from tosaic.hw.config import Config, get_config

from .arguments import NodeArg, argument
from .encodings import Encodings

DEFAULT_CONFIG = "base"
Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """How a graph is compiled, see `compile_graph`."""

    optimize: bool = True
    drop_dead_channels: bool = False
    keep_layers: bool = False
    compress: str | None = None
    progress: Progress | None = None


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model that can run."""

    graph: Graph | None
    """None for a compiled program."""
    program: Program | None
    """None on golden."""
    config: Config
    inputs: list[NodeArg]
    outputs: list[NodeArg]


def find_config(config: str | Config) -> Config:
    """A configuration by name; InputError lists the names there are."""
    if isinstance(config, Config):
        return config
    try:
        return get_config(config)
    except ValueError as error:
        raise InputError(str(error)) from None


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
    return Loaded(
        opened if isinstance(opened, Graph) else None,
        program,
        program.config,
        [argument(port, encodings) for port in program.inputs],
        [argument(port, encodings) for port in program.outputs],
    )


def _for_golden(opened: Graph | Program, encodings: Encodings, config: Config) -> Loaded:
    if isinstance(opened, Program):
        raise InputError(
            "a compiled program cannot run on golden, which needs the graph: give the .tosa file"
        )
    validate(opened)
    inputs, outputs = (
        [argument(opened.tensors[name], encodings) for name in names]
        for names in (opened.inputs, opened.outputs)
    )
    return Loaded(opened, None, config, inputs, outputs)


def _compiled_before(program: Program, config: Config | None, how: CompileOptions) -> Program:
    if config is not None and program.config.hash != config.hash:
        raise InputError(
            f"the program was compiled for configuration {program.config.name}, not {config.name}: "
            f"compile the model for {config.name}, or do not name a configuration"
        )
    if how.compress is not None:
        raise InputError("a compiled program cannot be compressed: compile the model again with it")
    return program


def _compiled(graph: Graph, config: Config, how: CompileOptions) -> Program:
    progress = how.progress
    return compile_graph(
        graph,
        config,
        optimize=how.optimize,
        drop_dead_channels=how.drop_dead_channels,
        keep_layers=how.keep_layers,
        compress=how.compress,
        on_layer=(lambda name, i, n: progress(f"compile {name}", i, n)) if progress else None,
    )
