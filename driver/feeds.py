"""What users hand to `Session.run`: a mapping, one array, onnxruntime's pair of names and feed; several samples."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.errors import InputError

from .arguments import NodeArg

GOLDEN, SOURCE = "golden", "source"
Check = bool | str | Iterable[str]
"""False: none, True or "golden": golden, "source": the network that the model was made of; or several of them."""


def checks_of(check: Check) -> frozenset[str]:
    """The checks that are asked for; InputError for one that there is not."""
    wanted = (
        (GOLDEN,) if check is True else () if not check else (check,) if isinstance(check, str) else check
    )
    found = frozenset(wanted) if isinstance(wanted, Iterable) else frozenset((str(wanted),))
    for name in found:
        if name not in (GOLDEN, SOURCE):
            raise InputError(
                f"there is no check {name!r}; use True or {GOLDEN!r}, {SOURCE!r}, or both in a tuple"
            )
    return found


def array_of(name: str, value: Any) -> np.ndarray:
    """The array of a tensor or of what NumPy takes; InputError where that is no array of numbers."""
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise InputError(f"input {name!r} is no array of numbers: {error}") from None
    if found.dtype.kind in "OUSMm":
        raise InputError(f"input {name!r} is no array of numbers, but {found.dtype}")
    return found


@dataclasses.dataclass(frozen=True)
class Feed:
    """Arrays by input; `names`: the outputs that are wanted as a list, in onnxruntime's manner."""

    arrays: dict[str, Any]
    names: list[str] | None = None


def feed_of(inputs: Any, input_feed: Any, arguments: Sequence[NodeArg], outputs: Sequence[NodeArg]) -> Feed:
    """What `run(inputs, input_feed)` means: `run({name: array})`, `run(array)`, or `run(names, {name: array})` where no
    names are all. InputError for anything else."""
    if input_feed is None:
        return Feed(_by_name(inputs, arguments))
    if inputs is not None and (isinstance(inputs, str) or not isinstance(inputs, list | tuple)):
        raise InputError("with two arguments the first is a list of outputs' names, or None for all of them")
    known = [each.name for each in outputs]
    names = [str(name) for name in inputs] if inputs else known
    for name in names:
        if name not in known:
            raise InputError(f"the model has no output {name!r}; it has {', '.join(map(repr, known))}")
    return Feed(_by_name(input_feed, arguments), names)


def _by_name(inputs: Any, arguments: Sequence[NodeArg]) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if not hasattr(inputs, "shape") and not isinstance(inputs, list | tuple | float | int):
        raise InputError(f"inputs are a mapping of arrays by name, or an array, not {type(inputs).__name__}")
    if len(arguments) != 1:
        listed = ", ".join(repr(each.name) for each in arguments) or "none"
        raise InputError(
            f"an array without a name is for a model of one input; the inputs are {listed}: give a mapping"
        )
    return {arguments[0].name: inputs}


def samples_in(
    arguments: Sequence[NodeArg], outputs: Sequence[NodeArg], arrays: Mapping[str, np.ndarray]
) -> int | None:
    """How many samples lie along the first axis of every array, where the model takes one; None where it is fed as it
    is, or where outputs could not be put together."""
    shapes = [(each.shape, np.shape(arrays[each.name])) for each in arguments if each.name in arrays]
    if not shapes or len(arrays) != len(shapes) or len(shapes) != len(arguments):
        return None
    counts = {given[0] for wanted, given in shapes if wanted[:1] == (1,) and len(given) == len(wanted)}
    one = all(
        wanted[:1] == (1,) and len(given) == len(wanted) and given[1:] == wanted[1:]
        for wanted, given in shapes
    )
    if not one or len(counts) != 1 or any(each.shape[:1] != (1,) for each in outputs):
        return None
    count = int(counts.pop())
    return count if count > 1 else None


@dataclasses.dataclass(frozen=True)
class ValueInfo:
    """An input or output as onnxruntime tells it."""

    name: str
    shape: list[Any]
    """Sizes; of a model whose shapes are open a name or None for each open one."""
    type: str
    """The type as onnxruntime writes it: "tensor(int8)"."""


def value_info(argument: NodeArg, dtype: np.dtype | None = None) -> ValueInfo:
    """An argument in onnxruntime's terms; `dtype` where users give another one than the machine's."""
    return ValueInfo(argument.name, list(argument.shape), tensor_type(dtype or argument.numpy))


def tensor_type(dtype: np.dtype) -> str:
    """A NumPy type in onnxruntime's terms, as "tensor(float)"."""
    return f"tensor({ {'float32': 'float', 'float64': 'double', 'object': 'string'}.get(dtype.name, dtype.name) })"
