"""onnxruntime's containers of arrays: values, and what is bound to a session's inputs and outputs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tosaic.driver.feeds import tensor_type
from tosaic.errors import InputError


class OrtValue:
    """An array in the host's memory, by onnxruntime's names."""

    def __init__(self, array: np.ndarray):
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """A value with the array's elements."""
        _check_device(device_type)
        return OrtValue(np.array(numpy_obj))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any = np.float32, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """A value of zeros."""
        _check_device(device_type)
        return OrtValue(np.zeros(tuple(shape), element_type))

    def numpy(self) -> np.ndarray:
        """The array."""
        return self._array

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Copies an array of the same shape and type into the value."""
        if np_arr.shape != self._array.shape or np_arr.dtype != self._array.dtype:
            held, given = (f"{each.dtype} {list(each.shape)}" for each in (self._array, np_arr))
            raise InputError(f"a value of {held} cannot hold {given}")
        self._array[...] = np_arr

    def shape(self) -> list[int]:
        """The array's shape."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """The array's type, as "tensor(float)"."""
        return tensor_type(self._array.dtype)

    def device_name(self) -> str:
        """The memory's name: always "cpu"."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Whether it is an array: always."""
        return True

    def has_value(self) -> bool:
        """Whether it holds something: always."""
        return True


class IOBinding:
    """Arrays bound to the inputs and outputs of a session, for `run_with_iobinding`."""

    def __init__(self, run: Callable[..., list[np.ndarray]]):
        self._run = run
        self._inputs: dict[str, np.ndarray] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Binds an array to an input."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Binds a value to an input."""
        self._inputs[name] = ortvalue.numpy()

    def bind_input(self, name: str, *_: Any, **__: Any) -> None:
        """Refuses: the memory at a pointer is not taken."""
        raise InputError(f"input {name!r} cannot be bound to a pointer: bind its array by bind_cpu_input")

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output, in memory of the session's own."""
        _check_device(device_type)
        if buffer_ptr is not None:
            raise InputError(
                f"output {name!r} cannot be bound to a pointer: bind an OrtValue by bind_ortvalue_output"
            )
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output, which is copied into a value."""
        self._outputs[name] = ortvalue

    def clear_binding_inputs(self) -> None:
        """Lets go of the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Lets go of the outputs."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Does nothing: arrays are in the host's memory."""

    def synchronize_outputs(self) -> None:
        """Does nothing: arrays are in the host's memory."""

    def get_outputs(self) -> list[OrtValue]:
        """The bound outputs of the last run."""
        return self._results

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        """The arrays of the bound outputs of the last run."""
        return [each.numpy().copy() for each in self._results]

    def run(self, run_options: Any = None) -> None:
        """Runs the session on what is bound."""
        names = list(self._outputs)
        if not names:
            raise InputError("no output is bound: call bind_output for each that is wanted")
        results = self._run(names, self._inputs, run_options)
        self._results = []
        for name, array in zip(names, results, strict=True):
            value = self._outputs[name]
            if value is None:
                value = OrtValue(array)
            else:
                value.update_inplace(array)
            self._results.append(value)


def _check_device(device_type: str) -> None:
    if str(device_type).lower() != "cpu":
        raise InputError(f"arrays are in the host's memory: the device is 'cpu', not {device_type!r}")
