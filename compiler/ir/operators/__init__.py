"""The operator table: every TOSA operator of 0.30 and 1.0, by name.

A row (`OperatorSpec`) says operands, attributes, types, shape rule and checks. In comes an `OpView`, an operator with
its tensors; out come shapes of results and broken rules. May import `dtypes` and `tensors`, and not the graph.
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
from tosaic.compiler.ir.operators.spec import Attribute, Mode, Operand, OperatorSpec, OpView, rule_of

_SECTIONS = (tensor_operators, convolution, elementwise, reduction, layout, conversion, structure)

OPERATORS: dict[str, OperatorSpec] = {spec.name: spec for section in _SECTIONS for spec in section.SPECS}

__all__ = ["OPERATORS", "Attribute", "Mode", "OpView", "Operand", "OperatorSpec", "rule_of"]
