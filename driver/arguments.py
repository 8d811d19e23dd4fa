"""Inputs and outputs of a model, and arrays for them."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from tosaic.compiler.ir import DType, Tensor, nearest
from tosaic.compiler.program import Port
from tosaic.compiler.quantizer import Encoding
from tosaic.errors import InputError

from .encodings import Encodings


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """A graph input or output: name, shape and TOSA type.

    Of a quantized model `encoding` tells what the integers stand for: real = scale * (q - zero_point).
    """

    name: str
    shape: tuple[int, ...]
    type: DType
    encoding: Encoding | None = None

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(self.type.numpy)


def argument(tensor: Tensor | Port, encodings: Encodings) -> NodeArg:
    """The input or output that a tensor or port is."""
    encoding = encodings.get(tensor.name)
    # The file may be that of another model of the same name.
    if encoding is not None and encoding.dtype is not tensor.dtype:
        encoding = None
    return NodeArg(tensor.name, tuple(tensor.shape), tensor.dtype, encoding)


def takes(values: np.ndarray) -> bool:
    """Whether reals may enter a model: minus infinity, which masks are made of, becomes the least that its encoding
    holds; nothing stands for NaN and for the other infinity."""
    return bool(np.all(np.less(values, np.inf)))


def checked_samples(
    arguments: list[NodeArg], inputs: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Arrays of samples along the first axis, each sample as its argument; what is in `state` is the same for each,
    unless it is given. InputError names the input that is wrong."""
    arrays = {name: np.asarray(values) for name, values in inputs.items()}
    counts = {name: len(values) if values.ndim else 0 for name, values in arrays.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items()) or "none"
        raise InputError(
            f"a batch has samples along the first axis of each input, at least one and equally many: there are {listed}"
        )
    checked_inputs(arguments, {**state, **{name: values[0] for name, values in arrays.items()}})
    count = next(iter(counts.values()))
    same = {name: np.broadcast_to(value, (count, *value.shape)) for name, value in state.items()}
    return {**same, **arrays}


def checked_inputs(arguments: list[NodeArg], inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs, each with the shape and type of its argument; InputError names the one that is wrong."""
    names = [each.name for each in arguments]
    for name in inputs:
        if name not in names:
            raise InputError(
                f"the model has no input {name!r}; it has {', '.join(map(repr, names)) or 'none'}"
            )
    values = {}
    for argument in arguments:
        if argument.name not in inputs:
            wanted = f"{argument.numpy} array of shape {list(argument.shape)}"
            raise InputError(f"input {argument.name!r} is missing: give an {wanted}")
        value = np.asarray(inputs[argument.name])
        if tuple(value.shape) != argument.shape:
            raise InputError(
                f"input {argument.name!r} has shape {list(value.shape)}, the model wants {list(argument.shape)}: "
                "reshape or crop it first"
            )
        if value.dtype != argument.numpy:
            quantize = "" if argument.type.is_float else "quantize it first, or "
            raise InputError(
                f"input {argument.name!r} has dtype {value.dtype}, the model wants {argument.numpy}: "
                f"{quantize}convert it with .astype(np.{argument.numpy})"
            )
        values[argument.name] = value
    return values


def made_up(generator: np.random.Generator, argument: NodeArg) -> np.ndarray:
    """Any integers or booleans of the argument's type, or normal floats, in its shape."""
    if argument.numpy == np.bool_:
        return generator.integers(0, 2, argument.shape).astype(bool)
    if argument.type.is_float:
        return nearest(generator.standard_normal(argument.shape), argument.type)
    return generator.integers(
        argument.type.min, argument.type.max, argument.shape, endpoint=True, dtype=argument.numpy
    )
