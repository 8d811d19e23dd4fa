"""The operator table: every TOSA operator of 0.30 and 1.0, by name.

A row (`OperatorSpec`) says operands, attributes, types, shape rule and checks, and the traits that passes ask for. In
comes an `OpView`, an operator with its tensors; out come shapes of results and broken rules. May import `dtypes` and
`tensors`, and not the graph.
"""

from tosaic.compiler.ir.operators import (
    conversion,
    convolution,
    elementwise,
    layout,
    reduction,
    structure,
    tensor_operators,
)
from tosaic.compiler.ir.operators.by_operator import ByOperator
from tosaic.compiler.ir.operators.spec import Attribute, Mode, Operand, OperatorSpec, OpView, rule_of
from tosaic.compiler.ir.operators.traits import Trait
from tosaic.compiler.ir.tensors import Operator

_SECTIONS = (tensor_operators, convolution, elementwise, reduction, layout, conversion, structure)

OPERATORS: dict[str, OperatorSpec] = {spec.name: spec for section in _SECTIONS for spec in section.SPECS}


def operators_with(traits: Trait) -> frozenset[str]:
    """Names of the operators that have all of these traits."""
    return frozenset(name for name, spec in OPERATORS.items() if traits in spec.traits)


def data_inputs(operator: Operator) -> list[str]:
    """The inputs of an operator that hold data; shapes, zero points and other parameters follow them."""
    return OPERATORS[operator.op].data_inputs(operator.inputs)


__all__ = [
    "OPERATORS",
    "Attribute",
    "ByOperator",
    "Mode",
    "OpView",
    "Operand",
    "OperatorSpec",
    "Trait",
    "data_inputs",
    "operators_with",
    "rule_of",
]
