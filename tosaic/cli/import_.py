"""`tosaic import`: a model of another format to a TOSA file."""

import pathlib
import warnings
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import tell_next
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.compiler.importers import import_model, is_imported
from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph, write_tosa
from tosaic.driver.encodings import Encodings, sidecar, write_encodings
from tosaic.driver.float_graphs import computes_floats, quantize_command
from tosaic.driver.function_files import is_function
from tosaic.driver.models import open_with_encodings
from tosaic.errors import InputError, ModelWarning


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="An .onnx, .mlmodel, .tflite or .nnr model, an NNEF folder or archive, or FILE.py:FUNCTION.",
        ),
    ],
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="OUT.tosa", help="The TOSA file.")
    ],
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Translate a model to TOSA, with its own element types: floats stay floats.

    An ONNX model with QuantizeLinear and DequantizeLinear around its operators becomes integers; OUT.quant.json tells
    scale and zero point of each input and output.
    """
    if pathlib.Path(source).suffix in (".tosa", ".tsc"):
        raise InputError(f"{source} needs no import; give a model of another format, such as .onnx")
    check_file(output, ".tosa")
    graph, encodings = _imported(source, options.bindings(shape, value))
    data = write_tosa(graph)
    with writing_whole(output) as scratch:
        scratch.write_bytes(data)
    if encodings or graph.declared:
        with writing(sidecar(output)):
            write_encodings(
                sidecar(output),
                {name: encodings[name] for name in graph.run_inputs if name in encodings},
                {name: encodings[name] for name in graph.run_outputs if name in encodings},
                declared=graph.declared,
            )
    print(f"{output}: {len(graph.operators)} operators, {len(data):,} bytes")
    for side, names in (
        ("input", graph.run_inputs),
        ("output", graph.run_outputs),
        ("state", list(graph.states)),
    ):
        for name in names:
            print(f"{side} {graph.tensors[name]}")
    for name, labels in graph.labels.items():
        # TOSA has no place for them.
        print(
            f"labels of {name!r}, not in the file: {', '.join(map(str, labels[:8]))}{' …' if len(labels) > 8 else ''}"
        )
    if computes_floats(graph):
        print(f"next: {quantize_command(str(output), Bindings())}")
    else:
        tell_next("run", output, "--random", "1", "--check")


def _imported(source: str, bound: Bindings) -> tuple[Graph, Encodings]:
    if not is_imported(pathlib.Path(source)) and not is_function(source):
        return import_model(source, bound), {}
    graph, encodings = open_with_encodings(source, bound)
    assert isinstance(graph, Graph)
    if graph.why_floats:
        warnings.warn(f"{graph.why_floats}; the TOSA file is in floats", ModelWarning, stacklevel=2)
    return graph, encodings
