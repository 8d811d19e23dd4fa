"""Kernels of CUSTOM operators, whose meaning TOSA leaves to those who make the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir.tensors import Operator, Tensor

CustomKernel = Callable[[Sequence[np.ndarray], bytes, Sequence[Tensor]], Sequence[np.ndarray]]
"""Takes the operands, the operator's `implementation_attrs` and what its results must be (name, shape and type); gives
the results. It must be a function of these alone: golden evaluates a model more than once."""


@dataclass(frozen=True)
class RegisteredKernel:
    """A kernel; `traced`: the accelerator computes what it does, by the operators that it is traced to."""

    compute: CustomKernel
    traced: bool


_KERNELS: dict[tuple[str, str], RegisteredKernel] = {}
"""By domain and operator name."""


def register_custom(
    name: str, domain: str = "", *, traced: bool = False
) -> Callable[[CustomKernel], CustomKernel]:
    """Registers the kernel of the CUSTOM operators with this `operator_name` and `domain_name`:

        @tosaic.register_custom("double", "example.org", traced=True)
        def double(operands, attributes, results):
            return [2 * operands[0]]

    Golden calls it. With `traced=True` the accelerator runs it too: its NumPy is traced, as by `tosaic.trace`, for the
    shapes and types of each operator, and the operators of TOSA that it comes to take the CUSTOM's place. Without it,
    compiling a graph that has one raises an UnsupportedError with its name. A kernel that is registered again takes the
    place of the first.
    """

    def register(kernel: CustomKernel) -> CustomKernel:
        _KERNELS[domain, name] = RegisteredKernel(kernel, traced)
        return kernel

    return register


def registered(operator: Operator) -> tuple[str, str, RegisteredKernel | None]:
    """The name and the domain of a CUSTOM operator, and its kernel if it has one."""
    name, domain = (operator.attributes.get(key, "") for key in ("operator_name", "domain_name"))
    return name, domain, _KERNELS.get((domain, name))


def checked_results(
    operator: Operator, shapes: Sequence[tuple[tuple[int, ...], np.dtype]], results: Sequence[Tensor]
) -> str:
    """Why the shapes and types that a kernel has made are not those of the operator's results; "" if they are."""
    if list(shapes) == [(tensor.shape, np.dtype(tensor.dtype.numpy)) for tensor in results]:
        return ""
    made = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in shapes) or "nothing"
    wanted = ", ".join(map(str, results)) or "nothing"
    return f"{operator}: the kernel of {registered(operator)[0]!r} makes {made}, not {wanted}"
