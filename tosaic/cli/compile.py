"""`tosaic compile`: a model to a program file, to C, or to a text that shows it in every stage of the compiler."""

import pathlib
import shlex
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.compiler.explain import explain as explain_stages
from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.batched import batched
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.driver.c_kit import C_SUFFIXES, check_model_file, write_c_kit
from tosaic.driver.configuration import find_config
from tosaic.driver.model_explorer import overlay_of, write_graph
from tosaic.driver.models import open_model
from tosaic.driver.session import Session
from tosaic.driver.targets import TargetOptions
from tosaic.errors import InputError
from tosaic.hw.config import Config


def compile_(
    model: Annotated[
        str,
        typer.Argument(
            help="A .tosa model, or one to import: .onnx, .mlmodel, .nnr, NNEF folder or archive."
        ),
    ],
    *,
    output: Annotated[
        pathlib.Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The program file (.tsc), or C (.c or .h) with its runtime beside it.",
        ),
    ] = None,
    config: options.Config = "base",
    sizes: options.Set = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the network in every stage of the compiler.")
    ] = False,
    explain_graph: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--explain-graph",
            metavar="FILE.json",
            help="Write layers and their operators for Model Explorer; their cycles beside it, in FILE.cycles.json.",
        ),
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Show that the program computes what the model says, for all inputs; the certificate is written "
            "beside it (.certificate.json). Exit codes as of `tosaic certify`.",
        ),
    ] = False,
    compress: options.Compress = None,
    drop_dead_channels: options.DropDeadChannels = False,
    memory_bandwidth: options.Bandwidth = None,
    memory_latency: options.Latency = None,
    batch: options.Batch = 1,
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Compile a model for a configuration, to be fast on the external memory that the options tell."""
    config = options.sized(config, sizes)
    if output is None and not explain and explain_graph is None:
        raise typer.BadParameter("give -o FILE.tsc (or .c, .h), --explain or --explain-graph, or several")
    if (explain or explain_graph is not None) and (compress is not None or drop_dead_channels):
        raise typer.BadParameter("--explain shows the stages without -O2 and --compress: leave them out")
    if certify and output is None:
        raise typer.BadParameter("--certify needs -o FILE: the certificate is written beside the program")
    if model.endswith(".tsc"):
        raise InputError(f"{model} is a compiled program already: run it, or give the .tosa model")
    _check_output(output)
    check_file(explain_graph, ".json")
    bound, speed = options.bindings(shape, value), TargetOptions(memory_bandwidth, memory_latency).speed
    if explain or explain_graph is not None:
        graph = open_model(model, bound)
        assert isinstance(graph, Graph)
        _explain(batched(graph, batch), find_config(config), speed, as_text=explain, to=explain_graph)
    if output is not None:
        session = _compiled(
            model,
            config,
            bound,
            speed=speed,
            compress=compress,
            drop_dead_channels=drop_dead_channels,
            batch=batch,
        )
        _write(output, session, config, compressed=compress is not None)
        if certify:
            _certify(model, bound, session, batch, output)
        if output.suffix not in C_SUFFIXES:
            tell_next("run", output, "--random", "1")


def _certify(model: str, bound: Bindings, session: Session, batch: int, output: pathlib.Path) -> None:
    """Certifies the program that was written; typer.Exit unless it is EQUAL."""
    from tosaic.cli.certify import report
    from tosaic.driver.certify import certify

    graph = open_model(model, bound)
    assert isinstance(graph, Graph)
    done = certify(batched(graph, batch), session.program, keyed=False)
    report(done, model, output.with_suffix(".certificate.json"))


def _check_output(output: pathlib.Path | None) -> None:
    """Raises InputError unless a program can be written there."""
    if output is not None and output.suffix in C_SUFFIXES:
        check_file(output)
        check_model_file(output)
    else:
        check_file(output, ".tsc")


def _explain(
    graph: Graph, config: Config, speed: MemorySpeed, *, as_text: bool, to: pathlib.Path | None
) -> None:
    """Prints the network in every stage, or writes it for Model Explorer, or both."""
    if as_text:
        for line in explain_stages(graph, config, speed):
            print(line)
    if to is not None:
        with writing(to):
            write_graph(to, graph, config, speed)
        print(f"next: model-explorer {shlex.join([str(to), f'--node_data_paths={overlay_of(to)}'])}")


def _compiled(
    model: str,
    config: str,
    bound: Bindings,
    *,
    speed: MemorySpeed,
    compress: str | None,
    drop_dead_channels: bool,
    batch: int,
) -> Session:
    """A session whose program is compiled."""
    with progress_bar(f"open {model}") as progress:
        # The emulator needs no device: this compiles and checks, and runs nothing.
        return Session(
            model,
            "emulator",
            config,
            memory_bandwidth=speed.bandwidth_bytes,
            memory_latency=speed.latency_cycles,
            drop_dead_channels=drop_dead_channels,
            compress=compress,
            batch=batch,
            progress=progress,
            shapes=bound.shapes,
            values=bound.values,
        )


def _write(output: pathlib.Path, session: Session, config: str, *, compressed: bool) -> None:
    """Writes the program file and prints its sizes."""
    program = session.program
    assert program is not None
    if output.suffix in C_SUFFIXES:
        arguments = (*session.inputs, *session.outputs, *session.state.arguments)
        with writing(output):
            write_c_kit(output, program, {each.name: each.encoding for each in arguments if each.encoding})
    else:
        with writing_whole(output) as scratch:
            program.save(scratch)
    microcode = sum(stream.bytes for stream in program.streams)
    print(
        f"{output}: {len(program.layers)} layers, {program.macs:,} MACs, {microcode:,} bytes of microcode, "
        f"{len(program.image_parts):,} bytes in all, {program.memory_bytes:,} bytes of external memory, for {config}"
    )
    if compressed:
        weights, coded = program.weights, sum(each.coded for each in program.weights)
        stored, whole = sum(each.stored_bytes for each in weights), sum(each.bytes for each in weights)
        booted = sum(each.at_boot for each in weights)
        print(
            f"weights: {stored:,} of {whole:,} bytes stored, {coded} of {len(weights)} tensors compressed, "
            f"{booted} of them decoded once, at boot"
        )
