"""CUSTOM operators, by the kernels that are registered for them."""

import numpy as np

from tosaic.compiler.ir import Operator, Tensor
from tosaic.compiler.ir.custom_kernels import CustomKernel, checked_results, register_custom, registered
from tosaic.errors import ModelError, UnsupportedError

__all__ = ["CustomKernel", "evaluate_custom", "register_custom"]


def evaluate_custom(
    operator: Operator, operands: list[np.ndarray], results: list[Tensor]
) -> list[np.ndarray]:
    """The results of a CUSTOM operator; UnsupportedError where it has no kernel, ModelError for results that the graph
    does not declare so."""
    name, domain, kernel = registered(operator)
    if kernel is None:
        raise UnsupportedError(
            f"{operator}: TOSA does not define what CUSTOM operator {name!r} of domain {domain!r} computes; "
            "register a kernel with tosaic.register_custom, or replace it by operators of the specification"
        )
    # The kernel is not ours: what it does to its operands must not reach other operators.
    own = [operand.copy() for operand in operands]
    attributes = operator.attributes.get("implementation_attrs", b"")
    values = [np.asarray(value) for value in kernel.compute(own, attributes, results)]
    problem = checked_results(operator, [(value.shape, value.dtype) for value in values], results)
    if problem:
        raise ModelError(problem)
    return values
