"""`tosaic quantize`: a float model to an integer TOSA file."""

import enum
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tosaic.cli import options
from tosaic.cli.afterwards import open_page, page_of, tell_next
from tosaic.cli.files import check_file, writing, writing_whole
from tosaic.cli.progress import progress_bar
from tosaic.compiler.ir import CurvedEncoding, Encoding, Graph, write_tosa
from tosaic.driver.encodings import sidecar, write_encodings
from tosaic.driver.models import open_model
from tosaic.driver.pages import decibels
from tosaic.driver.quantize import (
    Measurement,
    Quantization,
    check_floats,
    hold_out,
    load_samples,
    measure,
    quantize_graph,
)
from tosaic.driver.quantize.limits import warn_of_limits
from tosaic.driver.quantize.page import write_report
from tosaic.driver.quantize.samples import kept_numbers
from tosaic.driver.source import Agreement
from tosaic.driver.source.measured import agreement_with, note_of
from tosaic.errors import InputError


class CalibrationMethod(enum.StrEnum):
    minmax = "minmax"
    percentile = "percentile"
    entropy = "entropy"
    mse = "mse"


class Activations(enum.StrEnum):
    int8 = "int8"
    int16 = "int16"


class InputCurve(enum.StrEnum):
    auto = "auto"
    none = "none"
    log = "log"
    sqrt = "sqrt"


class WeightType(enum.StrEnum):
    int8 = "int8"
    int16 = "int16"
    int4 = "int4"


_Weights = Annotated[
    WeightType,
    typer.Option(
        "--weights", help="Type of weights; int16 runs each convolution twice, int4 is for matrices."
    ),
]
_Group = Annotated[
    int,
    typer.Option("--group", metavar="N", help="Input channels that share a scale of int4: 32, 64 or 128."),
]
_ErrorFeedback = Annotated[
    bool, typer.Option(help="Round weights so that the errors of a row make up for each other (GPTQ).")
]
_InputCurve = Annotated[
    InputCurve,
    typer.Option(
        "--input-curve", help="Integers of inputs that span decades stand for a logarithm or a root."
    ),
]
_Outputs = Annotated[
    Activations, typer.Option("--outputs", help="Type of outputs; int16 does not round them to 8 bits.")
]


def quantize(
    source: Annotated[str, typer.Argument(metavar="IN", help="A float model: .tosa, .onnx, ...")],
    *,
    calibration: Annotated[
        pathlib.Path,
        typer.Option(
            "-c",
            "--calibration",
            metavar="CALIB.npz",
            help="Samples by input name along the first axis; `labels`, if there, for the accuracy.",
        ),
    ],
    output: Annotated[
        pathlib.Path, typer.Option("-o", "--output", metavar="OUT.tosa", help="The integer TOSA file.")
    ],
    method: Annotated[
        CalibrationMethod, typer.Option("--method", help="How to choose the ranges of activations.")
    ] = CalibrationMethod.minmax,
    activations: Annotated[
        Activations, typer.Option("--activations", help="Type of activations; int16 is more precise.")
    ] = Activations.int8,
    weights: _Weights = WeightType.int8,
    group: _Group = 64,
    outputs: _Outputs = Activations.int8,
    input_curve: _InputCurve = InputCurve.auto,
    target_sqnr: Annotated[
        float | None,
        typer.Option("--target-sqnr", metavar="DB", help="Give 16 bits to the layers that this takes."),
    ] = None,
    keep_int16: Annotated[
        list[str] | None,
        typer.Option("--keep-int16", metavar="NAME", help="Give 16 bits to a layer, or to what layers read."),
    ] = None,
    equalization: Annotated[
        bool, typer.Option(help="Even out channels of very different ranges, where it pays.")
    ] = True,
    bias_correction: Annotated[
        bool, typer.Option(help="Correct biases by the mean error of rounded weights.")
    ] = True,
    error_feedback: _ErrorFeedback = False,
    held_out: Annotated[
        float,
        typer.Option(
            "--held-out",
            metavar="SHARE",
            help="Share of the samples to measure on, not to calibrate with; 0: measure on the calibration's.",
        ),
    ] = 0.2,
    report: options.ReportFile = None,
    open_: options.Open = False,
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Quantize a model for the accelerator; print what it costs, layer by layer.

    OUT.quant.json beside OUT.tosa tells scale and zero point of each input and output.
    """
    check_file(output, ".tosa")
    page = page_of(report, open_)
    check_file(page)
    arrays = load_samples(calibration)
    bound = options.bindings(shape, value)
    graph = open_model(source, bound)
    if not isinstance(graph, Graph):
        raise InputError(f"{source} is a compiled program; quantize the model it was made from")
    labels = arrays.pop("labels", None) if "labels" not in graph.inputs else None
    check_floats(graph)
    numbers = kept_numbers(graph, arrays, held_out)
    (arrays, labels), (test_arrays, test_labels) = hold_out(graph, arrays, labels, held_out)
    with progress_bar("quantize") as progress:
        found = quantize_graph(
            graph,
            arrays,
            method=method.value,
            activations=activations.value,
            equalization=equalization,
            correct_bias=bias_correction,
            weights=weights.value,
            group=group,
            outputs=outputs.value,
            input_curve=input_curve.value,
            error_feedback=error_feedback,
            target_sqnr=target_sqnr,
            keep_int16=keep_int16 or (),
            labels=labels,
            numbers=numbers,
            progress=progress,
        )
        measured = measure(found, test_labels if test_arrays else labels, progress, test_arrays)
        agreement = agreement_with(source, bound, found, measured)
    size = _write(found, output, note_of(source, bound, found, measured, agreement).as_json(output.parent))
    settings = {"method": method.value, "activations": activations.value, "weights": weights.value}
    if page is not None:
        with writing(page):
            write_report(page, (pathlib.Path(source), output), found, measured, settings)
    _print(measured, f"{output}: {len(found.graph.operators)} operators, {size:,} bytes")
    _tell(found, measured, agreement)
    open_page(page, open_)
    tell_next("run", output, "--random", "1", "--check")


def _write(found: Quantization, output: pathlib.Path, note: Mapping[str, Any]) -> int:
    """The integer graph, and beside it what its integers stand for. Returns the graph's bytes."""
    data = write_tosa(found.graph)
    with writing_whole(output) as scratch:
        scratch.write_bytes(data)
    with writing(sidecar(output)):
        write_encodings(sidecar(output), found.result.inputs, found.result.outputs, note)
    return len(data)


def _tell(found: Quantization, measured: Measurement, agreement: Agreement) -> None:
    """Prints what the integers stand for, and how near they are to the network; warns of what limits that."""
    if found.reached is not None:
        print(found.reached.told)
    for side, encodings in (("input", found.result.inputs), ("output", found.result.outputs)):
        for name, e in encodings.items():
            print(f"{side} {found.graph.tensors[name]}: {_formula(e)}")
    for line in agreement.lines:
        print(f"{line}; {measured.told_samples}")
    sqnr_db = {each.name: each.sqnr_db for each in agreement.outputs}
    warn_of_limits(found, sqnr_db, [dict(given) for given, _ in measured.runs])


def _formula(encoding: Encoding) -> str:
    """What reals are, of integers q."""
    if not isinstance(encoding, CurvedEncoding):
        return f"real = {encoding.scale:.9g} * (q - {encoding.zero_point})"
    curve, even = encoding.curve, f"v = {encoding.step:.9g} * (q - {encoding.zero_point})"
    return f"real = {f'{curve.unit:.9g} * (exp(|v|) - 1)' if curve.kind == 'log' else 'v * v'} with the sign of {even}"


def _print(measured: Measurement, file: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("layer", "operator", "integers"):
        table.add_column(title, overflow="fold")
    for title in ("SQNR", "largest difference"):
        table.add_column(title, justify="right")
    for layer in (*measured.layers, *measured.outputs):
        table.add_row(layer.shown, layer.op, layer.integers, decibels(layer.sqnr_db), f"{layer.largest:.4g}")
    Console(markup=False, highlight=False).print(table)
    for output in measured.outputs:
        share = measured.agreement.get(output.name)
        same = f", same largest element in {share:.2%}" if share is not None else ""
        print(f"{output.name}: SQNR {decibels(output.sqnr_db)}{same}, measured on {measured.told_samples}")
    for name, (before, after) in measured.accuracy.items():
        print(f"{name}: accuracy {before:.2%} in floats, {after:.2%} in integers")
    print(file)
