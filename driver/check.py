"""Compares what a target computed with the golden model."""

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.errors import Error, MismatchError, UnpredictableError


def first_difference(name: str, got: np.ndarray, wanted: np.ndarray) -> str | None:
    """One line on the first element that differs; None when the arrays are equal."""
    if got.shape != wanted.shape:
        return f"tensor {name!r} has shape {list(got.shape)}, golden has {list(wanted.shape)}"
    equal = got == wanted
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(wanted)
    different = np.argwhere(~equal)
    if not len(different):
        return None
    where = tuple(int(i) for i in different[0])
    share = f"{len(different)} of {got.size} elements differ"
    return f"tensor {name!r} differs at {list(where)}: got {got[where].item()}, golden {wanted[where].item()} ({share})"


def compare(graph: Graph, got: dict[str, np.ndarray], golden: dict[str, np.ndarray]) -> None:
    """Raises MismatchError on the first tensor of `got`, in order, that differs from `golden`."""
    producers = {name: operator for operator in graph.operators for name in operator.outputs}
    for name, value in got.items():
        problem = first_difference(name, value, golden[name])
        if problem:
            source = producers.get(name)
            raise MismatchError(f"{problem}; it is computed by {source}" if source else problem)


def blame(graph: Graph, inputs: dict[str, np.ndarray], mismatch: MismatchError) -> Error:
    """Whose fault a mismatch is: UnpredictableError where the specification leaves open what `inputs` give."""
    from tosaic.sim.golden import evaluate

    try:
        evaluate(graph, inputs, strict=True)
    except UnpredictableError as error:
        return UnpredictableError(
            f"the accelerator is not to blame, the inputs have no defined outputs: {error}; found by this: {mismatch}"
        )
    return mismatch
