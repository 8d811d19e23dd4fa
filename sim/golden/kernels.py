"""The table of kernels: which function computes which TOSA operator, and how it is called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType, ModelError, UnsupportedError

KernelFunction = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Kernel:
    """A kernel and what its signature says: the attributes it reads and how many operands it takes."""

    function: KernelFunction
    attributes: tuple[str, ...]
    required: frozenset[str]
    wants_out_dtype: bool
    takes_list: bool
    least_operands: int
    most_operands: int


_KERNELS: dict[str, Kernel] = {}


def kernel(op: str) -> Callable[[KernelFunction], KernelFunction]:
    """Register the decorated function as the integer kernel of TOSA operator `op`.

    The function's positional parameters are the operands in the order of TOSA 1.0, each an ndarray; its
    keyword-only parameters are the attributes that it reads, by their TOSA names (attributes without a
    meaning for integers, such as nan_mode, are left out), and `out_dtype` if the operands' types do not
    determine the result's. One with a default is optional. A `*` parameter takes a list of operands.
    """

    def register(function: KernelFunction) -> KernelFunction:
        parameters = inspect.signature(function).parameters.values()
        keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "out_dtype"]
        operands = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        _KERNELS[op] = Kernel(
            function,
            tuple(p.name for p in keywords),
            frozenset(p.name for p in keywords if p.default is p.empty),
            any(p.name == "out_dtype" for p in parameters),
            any(p.kind is p.VAR_POSITIONAL for p in parameters),
            sum(p.default is p.empty for p in operands),
            len(operands),
        )
        return function

    return register


def supported_operators() -> tuple[str, ...]:
    """Names of the operators that have a kernel, sorted; control flow is the evaluator's and not listed."""
    return tuple(sorted(_KERNELS))


def evaluate_operator(
    op: str,
    operands: Sequence[np.ndarray],
    attributes: Mapping[str, Any],
    out_dtypes: Sequence[DType],
    *,
    label: str | None = None,
) -> list[np.ndarray]:
    """Compute one operator.

    `operands` are the arrays in the order of TOSA 1.0, `attributes` its attributes by their TOSA names,
    `out_dtypes` the element types of its outputs. Returns the outputs, each with the NumPy type of its
    `out_dtypes` entry. `label` names the operator in error messages.

    Raises UnsupportedError for floating point and for an operator without a kernel, ModelError for a wrong
    number of operands and a missing attribute. It trusts the graph checker for every other ERROR_IF.
    """
    label = label or op
    found = _KERNELS.get(op)
    if found is None:
        raise UnsupportedError(f"{label}: the golden model has no integer kernel for {op}")
    if any(x.dtype.kind == "f" for x in operands) or any(dtype.is_float for dtype in out_dtypes):
        raise UnsupportedError(
            f"{label}: the golden model computes {op} on integers only; quantize the model first"
        )
    if len(operands) < found.least_operands or (len(operands) > found.most_operands and not found.takes_list):
        raise ModelError(f"{label}: {op} takes {found.most_operands} operands, not {len(operands)}")
    keywords = {name: attributes[name] for name in found.attributes if name in attributes}
    missing = sorted(found.required - keywords.keys())
    if missing:
        raise ModelError(f"{label}: {op} lacks the attribute {missing[0]}")
    if found.wants_out_dtype:
        keywords["out_dtype"] = out_dtypes[0]
    result = np.asarray(found.function(*operands, **keywords))
    return [result.astype(out_dtypes[0].numpy, copy=False)]
