"""`tosaic check`: which operators of a model run on the accelerator."""

from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.compiler.ir import Graph
from tosaic.compiler.ir.errors import InputError
from tosaic.compiler.support import check_support
from tosaic.driver.models import open_model
from tosaic.driver.session import find_config


def check(
    model: Annotated[str, typer.Argument(help="A .tosa or .onnx model.")],
    config: options.Config = "base",
    shape: options.Shape = None,
    verbose: options.Verbose = False,
) -> None:
    """List every operator: runs on the accelerator, or does not and why. Exit 1 if any does not."""
    graph = open_model(model, options.bindings(shape))
    if not isinstance(graph, Graph):
        raise InputError(f"{model} is a compiled program: everything in it runs")
    verdicts = check_support(graph, find_config(config))
    for verdict in verdicts:
        result = graph.tensors[verdict.operator.outputs[0]]
        reason = verdict.reason.removeprefix(f"{verdict.operator}: ")
        print(f"{'ok ' if verdict.runs else 'NO '} {verdict.operator.name:32} {str(result):48} {reason}")
    missing = sum(not verdict.runs for verdict in verdicts)
    print(f"{len(verdicts) - missing} of {len(verdicts)} operators run on {config}")
    if missing:
        raise typer.Exit(1)
