"""A data set: arrays of samples for a model's inputs, and labels."""

from collections.abc import Mapping, Sequence

import numpy as np

from tosaic.driver.arguments import NodeArg
from tosaic.driver.quantize.samples import NAMELESS
from tosaic.driver.shape_advice import samples_advice
from tosaic.errors import InputError

LABELS = "labels"
"""The name of the array of labels, unless told otherwise."""


def take_labels(
    arrays: Mapping[str, np.ndarray], name: str | None, inputs: Sequence[NodeArg]
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The other arrays, and the labels; by itself (None) what is called LABELS, if there is such an array and no such
    input. InputError when there is no array of that name, or when it holds no class numbers."""
    rest = dict(arrays)
    wanted = LABELS if name is None else name
    if name is None and (wanted not in rest or wanted in {each.name for each in inputs}):
        return rest, None
    if wanted not in rest:
        raise InputError(
            f"the data has no labels {wanted!r}; its arrays are {', '.join(map(repr, rest)) or 'none'}: "
            "name one of them with --labels"
        )
    labels = np.asarray(rest.pop(wanted))
    if labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise InputError(f"labels {wanted!r} must be class numbers from 0 on, not {labels.dtype} values")
    return rest, labels


def samples_for(arguments: Sequence[NodeArg], arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays [samples, ...], each sample of its argument's shape, but of the types that were given.

    An array holds samples along its first axis; an axis of the batch that the model has of its own may be left out if
    it is 1, and is made of N samples each if it is N. InputError for names and shapes that do not fit.
    """
    named = dict(arrays)
    if len(arguments) == 1 and len(named) == 1 and (name := next(iter(named))) in NAMELESS:
        named = {arguments[0].name: named[name]}
    names = [each.name for each in arguments]
    for name in named:
        if name not in names:
            raise InputError(
                f"the data has an array {name!r}, the model has no such input; its inputs are "
                f"{', '.join(map(repr, names)) or 'none'} (labels are named by --labels)"
            )
    found = {each.name: _shaped(each, named) for each in arguments}
    counts = {name: len(values) for name, values in found.items()}
    if len(set(counts.values())) != 1 or not min(counts.values()):
        listed = ", ".join(f"{count} of {name!r}" for name, count in counts.items()) or "none"
        raise InputError(
            f"the data must have equally many samples for each input, at least one: there are {listed}"
        )
    return found


def _shaped(argument: NodeArg, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    shape = argument.shape
    if argument.name not in arrays:
        listed = ", ".join(map(repr, arrays)) or "none"
        raise InputError(f"the data has no array for input {argument.name!r}; its arrays are {listed}")
    array = np.asarray(arrays[argument.name])
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array
    if shape and array.shape[1:] == shape[1:] and array.ndim == len(shape) and len(array) % shape[0] == 0:
        return array.reshape(-1, *shape)
    sizes = ", ".join(["samples", *map(str, shape[1:] if shape and shape[0] == 1 else shape)])
    raise InputError(
        f"the data for input {argument.name!r} has shape {list(array.shape)}; wanted is [{sizes}]"
        + samples_advice(array.shape, shape)
    )
