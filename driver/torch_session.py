"""A session in the terms of a PyTorch module: its tensors in, its types out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tosaic.compiler.importers.torch_models.program import inputs_of, outputs_of
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.arguments import NodeArg, takes
from tosaic.driver.feeds import ValueInfo, value_info
from tosaic.driver.session import Session
from tosaic.errors import InputError

if TYPE_CHECKING:
    from .source import Agreement


class TorchSession(Session):
    """A session whose `run` takes reals and gives reals, though the machine computes integers.

    Inputs are tensors or arrays, quantized by the scale of `self.inputs`; outputs are arrays of the module's types.
    Called like the module, it gives tensors in the structure that forward() returns. Everything else is as in
    `Session`.
    """

    def __init__(self, model: Quantized, program: Any, **options: Any):
        super().__init__(model, **options)
        ports = inputs_of(program)
        self._names = [port.name for port in ports]
        self._unread = set(self._names) - {each.name for each in self.inputs}
        self._types = {port.name: port.dtype for port in (*ports, *outputs_of(program))}
        self._results = [port.name for port in outputs_of(program)]
        self._structure = program.call_spec.out_spec
        self.source_agreement: Agreement | None = None
        """How near the integers are to the module, on calibration samples."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Runs like the module's forward(): tensors in, tensors out."""
        import torch
        import torch.utils._pytree as pytree

        if len(arguments) > len(self._names):
            raise InputError(
                f"the module takes {len(self._names)} tensors, not {len(arguments)}: {self._names}"
            )
        results = self.run(dict(zip(self._names, arguments, strict=False)) | named)
        tensors = [torch.from_numpy(results[name]) for name in self._results]
        if self._structure is None:
            return tensors[0] if len(tensors) == 1 else tuple(tensors)
        return pytree.tree_unflatten(tensors, self._structure)

    def get_inputs(self) -> list[ValueInfo]:
        """Returns what `Session.get_inputs` does, in the module's own types."""
        return [value_info(each, self._types.get(each.name)) for each in self.inputs]

    def get_outputs(self) -> list[ValueInfo]:
        """Returns what `Session.get_outputs` does, in the module's own types."""
        return [value_info(each, self._types.get(each.name)) for each in self.outputs]

    def __repr__(self) -> str:
        """One line as a session's, and how near the integers are to the module."""
        if self.source_agreement is None:
            return super().__repr__()
        return f"{super().__repr__()[:-1]}, {'; '.join(self.source_agreement.lines)})"

    def _entered(self, given: Mapping[str, np.ndarray], *, real: bool) -> dict[str, np.ndarray]:
        known = {each.name: each for each in self.inputs}
        return {
            name: _entering(known[name], self._types.get(name), value) if name in known else value
            for name, value in given.items()
            if name not in self._unread
        }

    def _given_back(self, outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {each.name: self._leaving(each, outputs[each.name]) for each in self.outputs}

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
