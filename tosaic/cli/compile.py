"""`tosaic compile`: a model to a program file."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.driver.session import Session
from tosaic.errors import InputError


def compile_(
    model: Annotated[
        str,
        typer.Argument(
            help="A .tosa model, or one to import: .onnx, .mlmodel, .nnr, NNEF folder or archive."
        ),
    ],
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="FILE.tsc", help="The program file.")
    ],
    config: options.Config = "base",
    compress: options.Compress = None,
    drop_dead_channels: options.DropDeadChannels = False,
    shape: options.Shape = None,
    verbose: options.Verbose = False,
) -> None:
    """Compile a model for a configuration."""
    if model.endswith(".tsc"):
        raise InputError(f"{model} is a compiled program already: run it, or give the .tosa model")
    check_file(output, ".tsc")
    with progress_bar(f"open {model}") as progress:
        # The emulator needs no device: this compiles and checks, and runs nothing.
        program = Session(
            model,
            "emulator",
            config,
            drop_dead_channels=drop_dead_channels,
            compress=compress,
            progress=progress,
            shapes=options.bindings(shape),
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
