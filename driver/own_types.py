"""A session in a model's own types: reals where its integers stand for reals, int64 where the machine has int32."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.driver.arguments import NodeArg, held, takes
from tosaic.driver.feeds import ValueInfo, value_info
from tosaic.driver.session import Session
from tosaic.errors import InputError


class OwnTypesSession(Session):
    """A session whose `run` takes and gives the model's own types, though the machine computes integers.

    `types` are those of the model's inputs and outputs by name, where they are known; else reals (float32) where
    integers stand for them. `unread` names inputs that the network does not need. With `integers` an input may also be
    given as the integers that stand for its reals; when all are, outputs are integers as well.
    """

    def __init__(
        self,
        model: Any,
        types: Mapping[str, np.dtype],
        unread: frozenset[str] = frozenset(),
        integers: bool = False,
        **options: Any,
    ):
        super().__init__(model, **options)
        self._types = {each.name: own_type(each) for each in (*self.inputs, *self.outputs)} | dict(types)
        self._unread = unread - {each.name for each in self.inputs}
        self._integers = integers
        self._gives_integers = False

    def type_of(self, name: str) -> np.dtype | None:
        """The model's own type of an input or output; None for a name that it does not have."""
        return self._types.get(name)

    def get_inputs(self) -> list[ValueInfo]:
        """Works like `Session.get_inputs`, in the model's own types."""
        return [value_info(each, self._types[each.name]) for each in self.inputs]

    def get_outputs(self) -> list[ValueInfo]:
        """Works like `Session.get_outputs`, in the model's own types."""
        return [value_info(each, self._types[each.name]) for each in self.outputs]

    def _entered(self, given: Mapping[str, np.ndarray], *, real: bool) -> dict[str, np.ndarray]:
        known = {each.name: each for each in self.inputs}
        encoded = [each for each in self.inputs if each.stands_for is not None and each.name in given]
        whole = {each.name for each in encoded if self._integers and is_whole(each, given[each.name])}
        self._gives_integers = bool(whole) and len(whole) == len(encoded)
        entered = {}
        for name, value in given.items():
            if name in whole:
                entered[name] = held(known[name], value)
            elif name in known:
                entered[name] = _entering(known[name], self._types[name], value)
            elif name not in self._unread:
                entered[name] = value
        return entered

    def _given_back(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {each.name: self._leaving(each, outputs[each.name]) for each in self.outputs}

    def _leaving(self, output: NodeArg, value: np.ndarray) -> np.ndarray:
        if output.stands_for is not None:
            if self._gives_integers:
                return value.view(output.own)
            value = output.stands_for.dequantize(value)
        return value.astype(self._types[output.name])


def own_type(argument: NodeArg) -> np.dtype:
    """The type of an input or output for users who know nothing of integers."""
    return argument.own if argument.stands_for is None else np.dtype(np.float32)


def is_whole(argument: NodeArg, value: np.ndarray) -> bool:
    """Whether an array has the type of the integers that stand for an argument's reals."""
    return argument.stands_for is not None and value.dtype in (argument.numpy, argument.own)


def _entering(argument: NodeArg, own: np.dtype, value: np.ndarray) -> np.ndarray:
    """What the machine gets for a model's input of type `own`; InputError where an integer does not fit."""
    if argument.stands_for is not None:
        if not takes(value):
            raise InputError(f"input {argument.name!r} has values that are not finite; give finite ones")
        return argument.stands_for.quantize(value)
    # The machine has integers without sign in the bits of those with one.
    unsigned = own.kind == "u"
    limits = own if unsigned else argument.numpy
    cast = value.astype(limits)
    if (unsigned or value.dtype.kind in "iu") and not np.array_equal(cast, value):
        whose = (
            "the module's type; give what forward() takes"
            if unsigned
            else "the machine's type; give smaller ones"
        )
        raise InputError(f"input {argument.name!r} has values beyond {limits}, {whose}")
    return cast.astype(argument.numpy)
