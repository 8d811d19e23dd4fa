"""What a user binds of a model before it is imported: sizes that it leaves open, and inputs that always have one value.

A bound input is a constant, so what only other values need is not lowered.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import Declared, Graph, Tensor
from tosaic.errors import InputError

Sizes = Mapping[str, int | Sequence[int]]
"""A symbolic dimension's name to its size, or an input's name to its whole shape."""
Shapes = Mapping[str, int | Sequence[int] | str]
"""As sizes; of a NumPy function an argument's name to its type and shape, "uint8[240,320,3]"."""
Values = Mapping[str, "float | Sequence[float] | np.ndarray"]
"""Values by input: one number for every element, or as many numbers as it has elements."""


@dataclass(frozen=True)
class Bindings:
    """Shapes and values. Where there are no values, the mapping of shapes alone says the same."""

    shapes: Shapes = field(default_factory=dict)
    values: Values = field(default_factory=dict)

    @property
    def sizes(self) -> Sizes:
        """The shapes of what is no NumPy function."""
        return {name: shape for name, shape in self.shapes.items() if not isinstance(shape, str)}

    @classmethod
    def of(cls, bound: "Bound") -> "Bindings":
        """What a caller has given."""
        return bound if isinstance(bound, Bindings) else cls(bound or {})


Bound = Bindings | Shapes | None


def refuse_types(bound: Bindings, model: str) -> None:
    """InputError for a shape with a type, where the model is no function."""
    for name, shape in bound.shapes.items():
        if isinstance(shape, str):
            raise InputError(
                f"{model}: {name}={shape} is for a NumPy function (FILE.py:FUNCTION); a model's inputs have their types"
                f": give --shape {name}={shape.partition('[')[2].rstrip(']') or 1}"
            )


def bound_array(
    name: str, value: "float | Sequence[float] | np.ndarray", shape: Sequence[int], dtype: np.dtype | type
) -> np.ndarray:
    """The elements of an input that is bound; InputError where there are too few or too many, or one does not fit."""
    given = np.asarray(value)
    if given.size not in (1, math.prod(shape)):
        raise InputError(
            f"--value {name}: {given.size} numbers for an input of shape {list(shape)}: give one, or {math.prod(shape)}"
        )
    with np.errstate(all="ignore"):
        array = given.astype(dtype)
    if array.dtype.kind != "f" and not np.array_equal(array.astype(np.float64), given.astype(np.float64)):
        raise InputError(f"--value {name}: the input is {array.dtype.name}, which does not hold {value}")
    return np.full(shape, array.reshape(-1)[0]) if array.size == 1 else array.reshape(shape)


def check_names(values: Values, names: Sequence[str]) -> None:
    """Raises InputError for a value that is bound to no input."""
    for name in values:
        if name not in names:
            raise InputError(f"--value {name}: the model has no such input; its inputs: {', '.join(names)}")


def bind_values(graph: Graph, values: Values) -> None:
    """Makes inputs of `graph` constants."""
    check_names(values, graph.inputs)
    for name, value in values.items():
        tensor, declared = graph.tensors[name], graph.declared.pop(name, None)
        if declared is None:
            tensor.data = bound_array(name, value, tensor.shape, tensor.dtype.numpy)
        else:
            tensor.data = _declared_array(name, value, tensor, declared)
        graph.inputs.remove(name)


def _declared_array(
    name: str, value: "float | Sequence[float] | np.ndarray", tensor: Tensor, declared: Declared
) -> np.ndarray:
    """The elements of a traced function's argument, as its tensor holds them."""
    array = bound_array(name, value, tensor.shape, np.dtype(declared.dtype))
    if array.size and not declared.low <= int(array.min()) <= int(array.max()) <= declared.high:
        raise InputError(
            f"--value {name}: {value} is outside of the declared range {declared.low}..{declared.high}: give a value "
            "inside, or trace the function with wider ranges"
        )
    return array if array.dtype == np.bool_ else array.view(tensor.dtype.numpy)
