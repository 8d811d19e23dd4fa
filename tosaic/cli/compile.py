"""`tosaic compile`: a model to a program file, or to a text that shows it in every stage of the compiler."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.compiler.explain import explain as explain_graph
from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.driver.models import open_model
from tosaic.driver.session import Session, find_config
from tosaic.errors import InputError


def compile_(
    model: Annotated[
        str,
        typer.Argument(
            help="A .tosa model, or one to import: .onnx, .mlmodel, .nnr, NNEF folder or archive."
        ),
    ],
    *,
    output: Annotated[
        pathlib.Path | None, typer.Option("-o", "--output", metavar="FILE.tsc", help="The program file.")
    ] = None,
    config: options.Config = "base",
    sizes: options.Set = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the network in every stage of the compiler.")
    ] = False,
    compress: options.Compress = None,
    drop_dead_channels: options.DropDeadChannels = False,
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Compile a model for a configuration."""
    config = options.sized(config, sizes)
    if output is None and not explain:
        raise typer.BadParameter("give -o FILE.tsc, or --explain, or both")
    if explain and (compress is not None or drop_dead_channels):
        raise typer.BadParameter("--explain shows the stages without -O2 and --compress: leave them out")
    if model.endswith(".tsc"):
        raise InputError(f"{model} is a compiled program already: run it, or give the .tosa model")
    check_file(output, ".tsc")
    bound = options.bindings(shape, value)
    if explain:
        _explain(model, config, bound)
    if output is not None:
        _write(model, output, config, bound, compress=compress, drop_dead_channels=drop_dead_channels)


def _explain(model: str, config: str, bound: Bindings) -> None:
    """Prints the network in every stage."""
    graph = open_model(model, bound)
    assert isinstance(graph, Graph)
    for line in explain_graph(graph, find_config(config)):
        print(line)


def _write(
    model: str,
    output: pathlib.Path,
    config: str,
    bound: Bindings,
    *,
    compress: str | None,
    drop_dead_channels: bool,
) -> None:
    """Compiles, writes the program file and prints its sizes."""
    with progress_bar(f"open {model}") as progress:
        # The emulator needs no device: this compiles and checks, and runs nothing.
        program = Session(
            model,
            "emulator",
            config,
            drop_dead_channels=drop_dead_channels,
            compress=compress,
            progress=progress,
            shapes=bound.shapes,
            values=bound.values,
        ).program
    assert program is not None
    with writing_whole(output) as scratch:
        program.save(scratch)
    print(
        f"{output}: {len(program.layers)} layers, {program.macs:,} MACs, {program.program_bytes:,} bytes of microcode, "
        f"{len(program.image):,} bytes in all, {program.memory_bytes:,} bytes of external memory, for {config}"
    )
    if compress is not None:
        weights, coded = program.weights, sum(each.coded for each in program.weights)
        stored, whole = sum(each.stored_bytes for each in weights), sum(each.bytes for each in weights)
        print(f"weights: {stored:,} of {whole:,} bytes stored, {coded} of {len(weights)} tensors compressed")
