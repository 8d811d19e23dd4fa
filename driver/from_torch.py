"""`tosaic.from_torch`: a session of a PyTorch module."""

from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.torch_models.program import inputs_of, outputs_of
from tosaic.driver.quantize.torch_modules import DEFAULT_ROAD, quantize_module
from tosaic.driver.session import Session
from tosaic.driver.torch_session import TorchSession
from tosaic.errors import InputError

VALUES = ("floats", "integers")


def from_torch(
    module: Any,
    example_inputs: Any = None,
    calibration: Any = None,
    *,
    road: str = DEFAULT_ROAD,
    activations: str = "int8",
    values: str = "floats",
    **options: Any,
) -> Session:
    """A session that runs a PyTorch module on the accelerator, in integers.

    `module` is a torch.nn.Module, a module that PT2E has prepared or converted, or an exported program, which needs
    no `example_inputs`. `example_inputs` is a tensor or a tuple of what forward() takes: it fixes the shapes.
    `calibration` tells the ranges of values: tensors, arrays by input, or an iterable of forward()'s inputs.
    `road` is "onnx" (PyTorch's ONNX exporter and Tosaic's quantizer) or "executorch" (its TOSA quantizer and backend);
    docs/pytorch.md compares them. `activations` is int8, or int16 with int8 weights.
    `values="floats"`: the session takes and gives the module's own types; "integers": those of the machine.
    `options` are those of `Session`: target, config and others. Raises `tosaic.Error` subclasses.
    """
    if values not in VALUES:
        raise InputError(f"values cannot be {values!r}; use one of {', '.join(VALUES)}")
    example = _as_tuple(module, example_inputs)
    program, quantized = quantize_module(module, example, calibration, road, activations)
    if values == "integers":
        return Session(quantized, **options)
    return TorchSession(quantized, inputs_of(program), outputs_of(program), **options)


def _as_tuple(module: Any, example_inputs: Any) -> Sequence[Any]:
    if example_inputs is None:
        brought = getattr(module, "example_inputs", None)
        if brought is None:
            raise InputError("example_inputs are missing: give a tuple of tensors such as forward() takes")
        return tuple(brought[0])
    return (example_inputs,) if hasattr(example_inputs, "detach") else tuple(example_inputs)
