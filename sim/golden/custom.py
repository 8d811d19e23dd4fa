"""Kernels of CUSTOM operators, whose meaning TOSA leaves to those who make the model."""

from collections.abc import Callable, Sequence

import numpy as np

from tosaic.compiler.ir import Operator, Tensor
from tosaic.errors import ModelError, UnsupportedError

CustomKernel = Callable[[Sequence[np.ndarray], bytes, Sequence[Tensor]], Sequence[np.ndarray]]
"""Takes the operands, the operator's `implementation_attrs` and what its results must be (name, shape and type); gives
the results. It must be a function of these alone: golden evaluates a model more than once."""

_KERNELS: dict[tuple[str, str], CustomKernel] = {}
"""Kernels by domain and operator name."""


def register_custom(name: str, domain: str = "") -> Callable[[CustomKernel], CustomKernel]:
    """Registers the kernel of the CUSTOM operators with this `operator_name` and `domain_name`, for golden:

        @tosaic.register_custom("double", "example.org")
        def double(operands, attributes, results):
            return [2 * operands[0]]

    A kernel that is registered again takes the place of the first. The accelerator has no such operators: compiling a
    graph that has one raises an UnsupportedError with its name.
    """

    def register(kernel: CustomKernel) -> CustomKernel:
        _KERNELS[domain, name] = kernel
        return kernel

    return register


def evaluate_custom(
    operator: Operator, operands: list[np.ndarray], results: list[Tensor]
) -> list[np.ndarray]:
    """The results of a CUSTOM operator; UnsupportedError where it has no kernel, ModelError for results that the graph
    does not declare so."""
    name, domain = (operator.attributes.get(key, "") for key in ("operator_name", "domain_name"))
    kernel = _KERNELS.get((domain, name))
    if kernel is None:
        raise UnsupportedError(
            f"{operator}: TOSA does not define what CUSTOM operator {name!r} of domain {domain!r} computes; "
            "register a kernel with tosaic.register_custom, or replace it by operators of the specification"
        )
    # The kernel is not ours: what it does to its operands must not reach other operators.
    own = [operand.copy() for operand in operands]
    values = [
        np.asarray(value)
        for value in kernel(own, operator.attributes.get("implementation_attrs", b""), results)
    ]
    found = [(value.shape, value.dtype) for value in values]
    if found != [(tensor.shape, np.dtype(tensor.dtype.numpy)) for tensor in results]:
        made = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in found) or "nothing"
        raise ModelError(
            f"{operator}: the kernel of {name!r} makes {made}, not {', '.join(map(str, results)) or 'nothing'}"
        )
    return values
