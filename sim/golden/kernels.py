"""The table of kernels: which function computes which TOSA operator, and how it is called."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType, nearest
from tosaic.errors import ModelError, UnsupportedError
from tosaic.sim.golden.requirements import on_behalf_of

KernelFunction = Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel and what its signature says: the attributes it reads and how many operands it takes."""

    function: KernelFunction
    attributes: tuple[str, ...]
    required: frozenset[str]
    group: tuple[str, type] | None
    """The parameter that takes several attributes as one value, and its class, whose fields they are."""
    wants_out_dtype: bool
    takes_list: bool
    least_operands: int
    most_operands: int
    in_float64: bool
    """Float operands are given as float64, and results are rounded to their type."""


_INTEGER_KERNELS: dict[str, Kernel] = {}
_FLOAT_KERNELS: dict[str, Kernel] = {}


def kernel(op: str, *, any_type: bool = False) -> Callable[[KernelFunction], KernelFunction]:
    """Register the decorated function as the integer kernel of TOSA operator `op`.

    The function's positional parameters are the operands in the order of TOSA 1.0, each an ndarray; its
    keyword-only parameters are the attributes that it reads, by their TOSA names (attributes without a
    meaning for integers, such as nan_mode, are left out), or one dataclass whose fields they are, and
    `out_dtype` if the operands' types do not determine the result's. One with a default is optional. A `*`
    parameter takes a list of operands.
    With `any_type` the function only moves or compares elements: it is the kernel for floats, too.
    """

    def register(function: KernelFunction) -> KernelFunction:
        _INTEGER_KERNELS[op] = _inspected(function, in_float64=False)
        if any_type:
            _FLOAT_KERNELS[op] = _INTEGER_KERNELS[op]
        return function

    return register


def float_kernel(op: str) -> Callable[[KernelFunction], KernelFunction]:
    """Register the decorated function as the kernel of `op` where an operand or the result is a float.

    As `kernel`, but float operands are float64, whatever their TOSA type, and so are float results (a tuple of
    them where the operator has several outputs): they are rounded once, to the output's type.
    """

    def register(function: KernelFunction) -> KernelFunction:
        _FLOAT_KERNELS[op] = _inspected(function, in_float64=True)
        return function

    return register


def _inspected(function: KernelFunction, *, in_float64: bool) -> Kernel:
    parameters = inspect.signature(function).parameters.values()
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "out_dtype"]
    operands = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    group = next(
        (
            (p.name, p.annotation)
            for p in keywords
            if isinstance(p.annotation, type) and is_dataclass(p.annotation)
        ),
        None,
    )
    attributes = {p.name: p.default is p.empty for p in keywords}
    if group is not None:
        attributes = {each.name: each.default is MISSING for each in fields(group[1])}
    return Kernel(
        function,
        tuple(attributes),
        frozenset(name for name, required in attributes.items() if required),
        group,
        any(p.name == "out_dtype" for p in parameters),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        sum(p.default is p.empty for p in operands),
        len(operands),
        in_float64,
    )


def supported_operators() -> tuple[str, ...]:
    """Names of the operators that have a kernel, sorted; control flow is the evaluator's and not listed."""
    return tuple(sorted(_INTEGER_KERNELS.keys() | _FLOAT_KERNELS.keys()))


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

    Raises UnsupportedError for an operator without a kernel (CUSTOM), ModelError for a wrong
    number of operands and a missing attribute. It trusts the graph checker for every other ERROR_IF.
    """
    label = label or op
    floats = any(x.dtype.kind == "f" for x in operands) or any(dtype.is_float for dtype in out_dtypes)
    found = (_FLOAT_KERNELS if floats else _INTEGER_KERNELS).get(op)
    if found is None:
        raise UnsupportedError(
            f"{label}: the golden model does not compute {op}{_of_type(op, floats)}; "
            "replace it by operators of the specification"
        )
    if len(operands) < found.least_operands or (len(operands) > found.most_operands and not found.takes_list):
        raise ModelError(f"{label}: {op} takes {found.most_operands} operands, not {len(operands)}")
    keywords = {name: attributes[name] for name in found.attributes if name in attributes}
    missing = sorted(found.required - keywords.keys())
    if missing:
        raise ModelError(f"{label}: {op} lacks the attribute {missing[0]}")
    if found.group is not None:
        name, group = found.group
        keywords = {name: group(**keywords)}
    if found.wants_out_dtype:
        keywords["out_dtype"] = out_dtypes[0]
    with on_behalf_of(label):
        if found.in_float64:
            return _in_float64(found, operands, keywords, out_dtypes)
        result = np.asarray(found.function(*operands, **keywords))
    return [result.astype(out_dtypes[0].numpy, copy=False)]


def _in_float64(
    found: Kernel, operands: Sequence[np.ndarray], keywords: dict[str, Any], out_dtypes: Sequence[DType]
) -> list[np.ndarray]:
    # Infinities and NaN are values like any other (TOSA 0.30 section 1.10).
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands]
        computed = found.function(*wide, **keywords)
    results = computed if isinstance(computed, tuple) else (computed,)
    return [
        nearest(result, dtype) if dtype.is_float else np.asarray(result).astype(dtype.numpy, copy=False)
        for result, dtype in zip(results, out_dtypes, strict=True)
    ]


def _of_type(op: str, floats: bool) -> str:
    if floats and op in _INTEGER_KERNELS:
        return " on floats"
    return " on integers" if not floats and op in _FLOAT_KERNELS else ""
