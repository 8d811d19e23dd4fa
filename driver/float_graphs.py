"""Float models are refused where integers are computed, with the command that makes integers of them."""

import pathlib

import numpy as np

from tosaic.compiler.importers.bindings import Bindings
from tosaic.compiler.ir import Graph
from tosaic.compiler.legalize.integers import require_integers
from tosaic.compiler.program import Program
from tosaic.errors import UnsupportedError


def computes_floats(graph: Graph) -> bool:
    """Whether there is something to quantize."""
    computed = [*graph.inputs, *(name for op in graph.operators for name in op.outputs)]
    return any(graph.tensors[name].dtype.is_float for name in computed)


def refuse_floats(opened: Graph | Program, model: str, target: str, bound: Bindings) -> None:
    """Raises UnsupportedError for a float graph on the accelerator: with the command that helps, or with the
    reason of its own that a quantized model has.
    """
    if target == "golden" or not isinstance(opened, Graph):
        return
    try:
        require_integers(opened)
    except UnsupportedError as error:
        if opened.why_floats:
            raise
        raise UnsupportedError(f"{error}: {quantize_command(model, bound)}") from None


def quantize_command(model: str, bound: Bindings) -> str:
    """The command that makes integers of a float model."""
    named = "NET" if model.startswith("<") else model
    stem = pathlib.Path(named).stem
    output = f"{stem}{'_int8' if named.endswith('.tosa') else ''}.tosa"
    options = "".join(
        f" --{kind} {name}={','.join(map(str, np.ravel(value).tolist()))}"
        for kind, given in (("shape", bound.shapes), ("value", bound.values))
        for name, value in given.items()
    )
    return f"tosaic quantize {named} -c calib.npz -o {output}{options}"
