"""The road by ONNX: PyTorch's exporter, then the ONNX importer."""

import contextlib
import io
import logging
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tosaic.compiler.importers.formats import Format
from tosaic.compiler.importers.onnx_models import import_onnx
from tosaic.compiler.importers.survey import Survey
from tosaic.compiler.importers.torch_models.packages import load_onnx_exporter
from tosaic.compiler.importers.torch_models.program import check_program, inputs_of, outputs_of, read_program
from tosaic.compiler.ir import Graph
from tosaic.errors import InputError, UnsupportedError


def import_torch(
    path: pathlib.Path, shapes: Mapping[str, int | Sequence[int]] | None = None, survey: Survey | None = None
) -> Graph:
    """The TOSA graph of a .pt2 file, which torch.export.save has written.

    Raises InputError, ModelError (a damaged file) or UnsupportedError (an operator without a TOSA form, or a missing
    package).
    """
    if shapes:
        raise InputError(f"{path}: its shapes are those it was exported with: leave --shape out")
    return import_onnx(onnx_of(read_program(path)), None, survey)


FORMAT = Format(import_torch)


def onnx_of(program: Any) -> Any:
    """The ONNX model of an exported program; inputs and outputs have the names of `inputs_of` and `outputs_of`."""
    exporter = load_onnx_exporter()
    check_program(program)
    names = [port.name for port in inputs_of(program)], [port.name for port in outputs_of(program)]
    try:
        # The exporter prints its progress, warns of its own code and logs which packages it does without.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _silent("torch.onnx"):
            warnings.simplefilter("ignore")
            exported = exporter.export(
                program, (), dynamo=True, verbose=False, input_names=names[0], output_names=names[1]
            )
    except Exception as error:  # torch.onnx wraps what any of its many translations raises
        cause = error.__cause__ or error
        said = " ".join(str(cause).split())[:400]
        raise UnsupportedError(
            f"torch.onnx cannot export the program ({type(cause).__name__}: {said}); replace what it names"
        ) from error
    return exported.model_proto


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """A package's logger without its warnings."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
