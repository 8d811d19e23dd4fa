"""`tosaic check`: what TOSA makes of a model's own operators, and which TOSA operators the accelerator runs."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.progress import progress_bar
from tosaic.compiler.importers.survey import LoweringForm, SourceOperator
from tosaic.compiler.ir import Graph
from tosaic.compiler.operator_support import check_support
from tosaic.driver.configuration import find_config
from tosaic.driver.float_graphs import computes_floats
from tosaic.driver.models import survey_source
from tosaic.errors import Error, InputError

if TYPE_CHECKING:
    from tosaic.driver.forecast import Forecast
    from tosaic.hw.config import Config as HardwareConfig


def check(
    model: Annotated[
        str,
        typer.Argument(
            help="A .tosa model, or one to import: .onnx, .mlmodel, .nnr, NNEF folder or archive."
        ),
    ],
    config: options.Config = "base",
    sizes: options.Set = None,
    shape: options.Shape = None,
    value: options.Value = None,
    quantized: Annotated[
        bool,
        typer.Option(help="Predict the cycles of a float model once quantized; large models take a while."),
    ] = True,
    verbose: options.Verbose = False,
) -> None:
    """Say whether a model runs, then list every operator: runs on the accelerator, or does not and why.

    Exit 0 if it runs, or will once it is quantized; else 1.

    Of an imported model, first its own operators: direct, composite or not representable in TOSA. Of a float model also
    what it will do once it is quantized: predicted cycles, utilization, the dearest layers and what limits them.
    """
    source, graph = survey_source(model, options.bindings(shape, value))
    if graph is None:
        missing = sum(operator.form == LoweringForm.NOT_REPRESENTABLE for operator in source)
        print(f"no: {missing} of {len(source)} operators of {model} have no form in TOSA")
        _print_source(source)
        raise typer.Exit(1)
    if not isinstance(graph, Graph):
        raise InputError(f"{model} is a compiled program: everything in it runs")
    chosen = find_config(options.sized(config, sizes))
    verdicts = check_support(graph, chosen)
    missing = sum(not verdict.runs for verdict in verdicts)
    told = _forecast(graph, chosen) if quantized and computes_floats(graph) and not graph.why_floats else None
    print(_verdict(model, chosen, len(verdicts), missing, told))
    _print_source(source)
    for verdict in verdicts:
        result = graph.tensors[verdict.operator.outputs[0]]
        reason = verdict.reason.removeprefix(f"{verdict.operator}: ")
        print(f"{'ok ' if verdict.runs else 'NO '} {verdict.operator.name:32} {str(result):48} {reason}")
    print(f"{len(verdicts) - missing} of {len(verdicts)} operators run on {chosen.name}")
    if graph.why_floats:
        print(f"NO  {graph.why_floats}")
    elif told is not None:
        _print_forecast(told, chosen)
    if not missing:
        given = [word for word in sys.argv[2:] if word not in ("--quantized", "--no-quantized")]
        tell_next("run", *given, "--random", "1", "--check")
    if missing and (told is None or isinstance(told, Error)):
        raise typer.Exit(1)


def _verdict(
    model: str, config: "HardwareConfig", operators: int, missing: int, told: "Forecast | Error | None"
) -> str:
    """The line that answers the question."""
    if not missing:
        return f"yes: all {operators} operators of {model} run on {config.name}"
    if told is not None and not isinstance(told, Error):
        return (
            f"yes, once quantized: {told.layers} layers run on {config.name}, {told.cycles:,} predicted cycles; next: "
            f"tosaic quantize {model} -c CALIB.npz -o OUT.tosa"
        )
    return f"no: {missing} of {operators} operators of {model} do not run on {config.name}"


def _forecast(graph: Graph, config: "HardwareConfig") -> "Forecast | Error":
    """What a float model will do once it is quantized, or why it will not run."""
    # A network of integers needs no quantizer and no emulator.
    from tosaic.driver.forecast import forecast

    try:
        with progress_bar("check") as progress:
            return forecast(graph, config, progress)
    except Error as error:
        return error


def _print_forecast(told: "Forecast | Error", config: "HardwareConfig") -> None:
    """Prints what a float model will do, with a line for each of the dearest layers; or why it will not run."""
    print(
        "after `tosaic quantize`, with one sample of random numbers in the place of yours (data changes cycles):"
    )
    if isinstance(told, Error):
        print(f"NO  {told}")
        return
    print(
        f"ok  {told.layers} layers run on {config.name}: {told.cycles:,} predicted cycles, utilization "
        f"{told.utilization:.1%}, {told.memory_bytes:,} bytes of memory"
    )
    width = max((len(layer.shown) for layer in told.dearest), default=0)
    for layer in told.dearest:
        print(
            f"    {layer.shown:{width}} {layer.cycles:>12,} cycles ({layer.cycles / told.cycles:4.0%}), utilization "
            f"{layer.utilization:6.1%}; {layer.limit}"
        )


def _print_source(operators: list[SourceOperator]) -> None:
    """One line per operator of the source model: form, kind, name, and what it becomes or why it cannot."""
    if not operators:
        return
    kinds = max(len(operator.kind) for operator in operators)
    names = min(max(len(operator.name) for operator in operators), 40)
    for operator in operators:
        print(
            f"{operator.form:17} {operator.kind:{kinds}} {operator.name:{names}} {operator.reason}".rstrip()
        )
    counts = Counter(operator.form for operator in operators)
    told = ", ".join(f"{count} {form}" for form, count in counts.items())
    print(f"{len(operators)} operators in the source: {told}")
