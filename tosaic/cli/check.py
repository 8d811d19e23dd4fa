"""`tosaic check`: what TOSA makes of a model's own operators, and which TOSA operators the accelerator runs."""

from collections import Counter
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.compiler.importers.survey import SourceOperator
from tosaic.compiler.ir import Graph
from tosaic.compiler.operator_support import check_support
from tosaic.driver.models import survey_source
from tosaic.driver.session import find_config
from tosaic.errors import InputError


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
    verbose: options.Verbose = False,
) -> None:
    """List every operator: runs on the accelerator, or does not and why. Exit 1 if any does not.

    Of an imported model, first its own operators: direct, composite or not representable in TOSA.
    """
    source, graph = survey_source(model, options.bindings(shape, value))
    _print_source(source)
    if graph is None:
        raise typer.Exit(1)
    if not isinstance(graph, Graph):
        raise InputError(f"{model} is a compiled program: everything in it runs")
    chosen = find_config(options.sized(config, sizes))
    verdicts = check_support(graph, chosen)
    for verdict in verdicts:
        result = graph.tensors[verdict.operator.outputs[0]]
        reason = verdict.reason.removeprefix(f"{verdict.operator}: ")
        print(f"{'ok ' if verdict.runs else 'NO '} {verdict.operator.name:32} {str(result):48} {reason}")
    missing = sum(not verdict.runs for verdict in verdicts)
    print(f"{len(verdicts) - missing} of {len(verdicts)} operators run on {chosen.name}")
    if missing:
        raise typer.Exit(1)


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
