"""A session in the terms of a PyTorch module: its tensors in, its types out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.importers.torch_models.program import Port
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.arguments import NodeArg, takes
from tosaic.driver.quantize.torch_samples import array_of
from tosaic.driver.session import Session
from tosaic.errors import InputError


class TorchSession(Session):
    """A session whose `run` takes reals and gives reals, though the machine computes integers.

    Inputs are tensors or arrays, quantized by the scale of `self.inputs`; outputs are arrays of the module's types.
    Everything else is as in `Session`.
    """

    def __init__(self, model: Quantized, inputs: list[Port], outputs: list[Port], **options: Any):
        super().__init__(model, **options)
        self._unread = {port.name for port in inputs} - {each.name for each in self.inputs}
        self._taken = {port.name: port.dtype for port in inputs}
        self._types = {port.name: port.dtype for port in outputs}

    def run(
        self, inputs: Mapping[str, Any], *, check: bool = False, strict: bool = False
    ) -> dict[str, np.ndarray]:
        """As `Session.run`, in the module's own types."""
        known = {each.name: each for each in self.inputs}
        values = {
            name: _entering(known[name], self._taken.get(name), array_of(value))
            if name in known
            else array_of(value)
            for name, value in inputs.items()
            if name not in self._unread
        }
        results = super().run(values, check=check, strict=strict)
        return {each.name: self._leaving(each, results[each.name]) for each in self.outputs}

    def _leaving(self, output: NodeArg, value: np.ndarray) -> np.ndarray:
        if output.encoding is not None:
            value = output.encoding.dequantize(value)
        return value.astype(self._types.get(output.name, value.dtype))


def _entering(argument: NodeArg, own: np.dtype | None, value: np.ndarray) -> np.ndarray:
    """What the machine gets for a module's input of type `own`; InputError where an integer does not fit."""
    if argument.encoding is not None:
        if not takes(value):
            raise InputError(f"input {argument.name!r} has values that are not finite; give finite ones")
        return argument.encoding.quantize(value)
    # The machine has integers without sign in the bits of those with one.
    unsigned = own is not None and own.kind == "u"
    limits = own if unsigned and own is not None else argument.numpy
    held = value.astype(limits)
    if (unsigned or value.dtype.kind in "iu") and not np.array_equal(held, value):
        whose = (
            "the module's type; give what forward() takes"
            if unsigned
            else "the machine's type; give smaller ones"
        )
        raise InputError(f"input {argument.name!r} has values beyond {limits}, {whose}")
    return held.astype(argument.numpy)
