"""A session in the terms of a PyTorch module: its tensors in, its types out."""

from typing import TYPE_CHECKING, Any

from tosaic.compiler.importers.torch_models.program import inputs_of, outputs_of
from tosaic.compiler.quantizer import Quantized
from tosaic.driver.own_types import OwnTypesSession
from tosaic.errors import InputError

if TYPE_CHECKING:
    from .source import Agreement


class TorchSession(OwnTypesSession):
    """A session whose `run` takes reals and gives reals, though the machine computes integers.

    Inputs are tensors or arrays, quantized by the scale of `self.inputs`; outputs are arrays of the module's types.
    Called like the module, it gives tensors in the structure that forward() returns. Everything else is as in
    `Session`.
    """

    def __init__(self, model: Quantized, program: Any, **options: Any):
        ports = inputs_of(program)
        types = {port.name: port.dtype for port in (*ports, *outputs_of(program))}
        super().__init__(model, types, frozenset(port.name for port in ports), **options)
        self._names = [port.name for port in ports]
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

    def __repr__(self) -> str:
        """One line as a session's, and how near the integers are to the module."""
        if self.source_agreement is None:
            return super().__repr__()
        return f"{super().__repr__()[:-1]}, {'; '.join(self.source_agreement.lines)})"
