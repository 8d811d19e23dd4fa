"""`tosaic.from_torch` makes a session of a PyTorch module."""

from collections.abc import Sequence
from typing import Any

from tosaic.driver.quantize.torch_modules import DEFAULT_ROAD, quantize_module
from tosaic.driver.session import Session
from tosaic.driver.source.modules import measured_module, module_network
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
    """Makes a session that runs a PyTorch module on the accelerator, in integers.

    `module` is a torch.nn.Module, a module that PT2E has prepared or converted, or an exported program, which needs
    no `example_inputs`. `example_inputs` is a tensor or a tuple of what forward() takes: it fixes the shapes.
    `calibration` tells the ranges of values: tensors, arrays by input, or an iterable of forward()'s inputs.
    `road` is "onnx" (PyTorch's ONNX exporter and Tosaic's quantizer) or "executorch" (its TOSA quantizer and backend);
    docs/pytorch.md compares them. `activations` is int8, or int16 with int8 weights.
    `values="floats"`: the session takes and gives the module's own types; "integers": those of the machine.
    `options` are those of `Session`: target, config and others. Raises `tosaic.Error` subclasses.

    The integers are compared with the module on a few calibration samples: `session.source_agreement` tells how near
    they are, and a ModelWarning where that is too little. `session.run(..., check="source")` compares with the module
    again, `check=True` only with golden's integers.
    """
    if values not in VALUES:
        raise InputError(f"values cannot be {values!r}; use one of {', '.join(VALUES)}")
    example = _as_tuple(module, example_inputs)
    found = quantize_module(module, example, calibration, road, activations)
    network, agreement = measured_module(module_network(type(module).__name__, found), found)
    options = {"source": network, **options}
    if values == "integers":
        return Session(found.result, **options)
    session = TorchSession(found.result, found.program, **options)
    session.source_agreement = agreement
    return session


def _as_tuple(module: Any, example_inputs: Any) -> Sequence[Any]:
    if example_inputs is None:
        brought = getattr(module, "example_inputs", None)
        if brought is None:
            raise InputError("example_inputs are missing: give a tuple of tensors such as forward() takes")
        return tuple(brought[0])
    return (example_inputs,) if hasattr(example_inputs, "detach") else tuple(example_inputs)
