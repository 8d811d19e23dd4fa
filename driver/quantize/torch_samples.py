"""Calibration data of PyTorch's kinds: tensors, data loaders, arrays by name; cut to what one run takes."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.torch_models.program import OwnedPort
from tosaic.driver.feeds import array_of
from tosaic.driver.shape_advice import samples_advice
from tosaic.errors import InputError, ModelWarning

Sample = list[np.ndarray]
"""One array per input, in the order of forward()'s arguments."""


def samples_of(ports: Sequence[OwnedPort], calibration: Any, example: Sequence[Any]) -> list[Sample]:
    """The samples in `calibration`, each as large as the inputs.

    It may be an array or tensor (of the only input) or a mapping of them by name, with runs or batches along the first
    axis; or an iterable of what forward() takes, as a DataLoader gives it. None: `example` itself, with a warning.
    InputError for what does not fit.
    """
    if calibration is None:
        warnings.warn(
            "without calibration data the ranges are those of the example inputs: give calibration=...",
            ModelWarning,
            stacklevel=4,
        )
        return [_checked(ports, example)]
    if _is_array(calibration):
        if len(ports) != 1:
            raise InputError(
                f"the module has {len(ports)} inputs, the calibration data is one array; give a mapping by name: "
                + ", ".join(port.name for port in ports)
            )
        calibration = {ports[0].name: calibration}
    if isinstance(calibration, Mapping):
        found = _by_name(ports, calibration)
    else:
        found = [_checked(ports, each) for each in calibration]
    if not found:
        raise InputError("the calibration data has no samples; give some such as the model will see")
    return found


def stacked(ports: Sequence[OwnedPort], samples: Iterable[Sample]) -> dict[str, np.ndarray]:
    """All samples of each input as one array, runs along a new first axis."""
    return {
        port.name: np.stack(values) for port, values in zip(ports, zip(*samples, strict=True), strict=True)
    }


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _checked(ports: Sequence[OwnedPort], sample: Any) -> Sample:
    """One sample, given as forward() takes it: the arrays of all inputs."""
    values = [sample] if _is_array(sample) else list(sample)
    if len(values) != len(ports):
        raise InputError(
            f"a calibration sample has {len(values)} tensors, the module takes {len(ports)}: "
            + ", ".join(f"{port.name} {list(port.shape)}" for port in ports)
        )
    return [_fitted(port, array_of(port.name, value)) for port, value in zip(ports, values, strict=True)]


def _fitted(port: OwnedPort, value: np.ndarray) -> np.ndarray:
    if value.shape != port.shape:
        raise InputError(
            f"the calibration data for input {port.name!r} has shape {list(value.shape)}, the module was exported with "
            f"{list(port.shape)}{samples_advice((1, *value.shape), port.shape) or '; give batches of this shape'}"
        )
    with np.errstate(invalid="ignore"):
        held = value.astype(port.dtype)
    if port.dtype.kind in "iu" and not np.array_equal(held, value):
        raise InputError(
            f"the calibration data for input {port.name!r} has {value.dtype} values that {port.dtype}, the module's "
            "type, does not hold; give what forward() takes"
        )
    return held


def _by_name(ports: Sequence[OwnedPort], arrays: Mapping[str, Any]) -> list[Sample]:
    names = [port.name for port in ports]
    for name in arrays:
        if name not in names:
            raise InputError(
                f"the calibration data has an array {name!r}; the module's inputs are {', '.join(names)}"
            )
    runs = []
    for port in ports:
        if port.name not in arrays:
            raise InputError(f"the calibration data has no array for input {port.name!r}")
        value = array_of(port.name, arrays[port.name])
        batch = port.shape[0] if port.shape else 1
        if value.shape[1:] == port.shape[1:] and value.ndim == len(port.shape) and len(value) % batch == 0:
            value = value.reshape(-1, *port.shape)
        runs.append([_fitted(port, each) for each in value])
    if len({len(each) for each in runs}) != 1:
        counts = ", ".join(f"{len(run)} of {name!r}" for name, run in zip(names, runs, strict=True))
        raise InputError(f"the calibration data has different numbers of samples: {counts}")
    return [list(sample) for sample in zip(*runs, strict=True)]
