"""`tosaic certify` and `tosaic check-certificate`: a program computes what its model says, for all inputs."""

import pathlib
from typing import Annotated

import typer

from tosaic.cli import options
from tosaic.cli.files import check_file, writing
from tosaic.cli.progress import progress_bar
from tosaic.driver.certify import DIFFERENT, EQUAL, Certificate
from tosaic.driver.certify import certify as certify_model
from tosaic.driver.certify import check_certificate as check_again
from tosaic.driver.configuration import find_config
from tosaic.driver.models import open_model
from tosaic.errors import InputError

EXIT_CODES = {EQUAL: 0, DIFFERENT: 3}
"""UNDECIDED: 1."""
Model = Annotated[
    str, typer.Argument(help="A .tosa model or one to import, of integers; or a .tsc program, with --model.")
]
Beside = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="The model that a .tsc program was compiled from."),
]


def certify(
    model: Model,
    *,
    beside: Beside = None,
    output: Annotated[
        pathlib.Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the certificate there, as JSON."),
    ] = None,
    config: options.ConfigOrProgram = None,
    sizes: options.Set = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=16, help="Random points at which to compare.")
    ] = 2,
    shape: options.Shape = None,
    value: options.Value = None,
    verbose: options.Verbose = False,
) -> None:
    """Show that a compiled program computes what its model says, for all inputs.

    Exit 0: EQUAL for all inputs. Exit 3: DIFFERENT, with an input that shows it. Exit 1: UNDECIDED, for the method does
    not reach this program, or neither shows equality nor finds such an input.
    """
    check_file(output, ".json")
    graph, program = _opened(model, beside, config, sizes)
    with progress_bar(f"certify {model}"):
        done = certify_model(
            open_model(graph, options.bindings(shape, value)),  # type: ignore[arg-type]
            program,
            config=None if program is not None else find_config(options.sized(config or "base", sizes)),
            seeds=seeds,
        )
    report(done, model, output)


def _opened(
    model: str, beside: str | None, config: str | None, sizes: list[str] | None
) -> tuple[str, str | None]:
    """(model, program) of the two arguments."""
    if not model.endswith(".tsc"):
        if beside is not None:
            raise InputError(f"--model tells the model of a .tsc program, and {model} is none: leave it out")
        return model, None
    if beside is None:
        raise InputError(f"{model} does not hold its model: give it with --model MODEL.tosa")
    if config is not None or sizes:
        raise InputError(f"{model} is compiled for its configuration: leave out --config and --set")
    return beside, model


def report(done: Certificate, model: str, output: pathlib.Path | None) -> None:
    """Print the verdict, write the certificate, and end with the verdict's exit code."""
    if output is not None:
        with writing(output):
            done.save(output)
    print(f"{model}: {_sentence(done)}")
    if done.verdict == EQUAL:
        names = ", ".join(sorted(done.axioms)) or "none"
        print(
            f"axioms: {names}; results of which only a REQUIRE says that they fit: {sum(done.assumptions.values()):,}"
        )
    if done.place is not None:
        place = done.place
        core = f" of core {place.core}" if place.core else ""
        at = (
            ""
            if place.program_counter is None
            else f" at program counter {place.program_counter}{core}: {place.instruction}"
        )
        where = f"tensor {place.tensor!r} of layer {place.layer!r}" if place.tensor else "the program"
        print(f"the first term that is not the model's: {where}{at}")
    if code := EXIT_CODES.get(done.verdict, 1):
        raise typer.Exit(code)


def _sentence(done: Certificate) -> str:
    if done.verdict == EQUAL:
        return (
            f"EQUAL for all inputs on {done.configuration}, but for a probability of 2^{done.log2_error:.0f} "
            f"({done.seconds:.1f} s)"
        )
    if done.witness is not None:
        shown = done.witness
        return (
            f"DIFFERENT: output {shown.output!r} is {shown.found} instead of {shown.wanted} at {list(shown.index)} "
            "for an input that the certificate holds"
        )
    return f"UNDECIDED: {done.reason}"


def check_certificate(
    certificate: Annotated[str, typer.Argument(help="A file that `tosaic certify -o` wrote.")],
    model: Annotated[str, typer.Argument(help="The model, or the .tsc program, with --model.")],
    *,
    beside: Beside = None,
    verbose: options.Verbose = False,
) -> None:
    """Show again what a certificate says, at other random points; of DIFFERENT its input is run.

    Exit 3 where it is for another model, program or configuration, or says something else.
    """
    graph, program = _opened(model, beside, None, None)
    done = check_again(certificate, graph, program)
    print(f"{certificate}: holds: {_sentence(done)}")
