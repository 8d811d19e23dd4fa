"""Reduction operators (2.9)."""

from tosaic.compiler.ir.operators.common import (
    AXIS,
    BOOL_MODES,
    FLOAT_MODES,
    INT32_MODES,
    INTEGER_MODES,
    NAN_MODE,
    OUTPUT,
    axis_in_range,
)
from tosaic.compiler.ir.operators.spec import MAX_RANK, Attribute, Mode, Operand, OperatorSpec, OpView, Shape
from tosaic.compiler.ir.operators.traits import NO_TRAIT, Trait


def _reduced_shape(node: OpView) -> list[Shape]:
    shape, axis = node.shape("input"), node.attribute("axis")
    return [(*shape[:axis], 1, *shape[axis + 1 :])]


def _reduction(
    name: str,
    clause: str,
    rows: tuple[Mode, ...],
    *more: Attribute,
    traits: Trait = NO_TRAIT,
    degree: float | None = None,
) -> OperatorSpec:
    return OperatorSpec(
        name,
        clause,
        "reduction",
        (Operand("input", "in_out_t", (1, MAX_RANK), "shape1"),),
        OUTPUT,
        rows,
        _reduced_shape,
        (AXIS, *more),
        (axis_in_range("input"),),
        traits=Trait.REDUCES | Trait.CHANNEL_BY_CHANNEL | traits,
        degree=degree,
    )


SPECS = (
    _reduction("REDUCE_ALL", "2.9.1", BOOL_MODES, traits=Trait.PICKS),
    _reduction("REDUCE_ANY", "2.9.2", BOOL_MODES, traits=Trait.PICKS),
    _reduction("REDUCE_MAX", "2.9.3", INTEGER_MODES + FLOAT_MODES, NAN_MODE, traits=Trait.PICKS, degree=1),
    _reduction("REDUCE_MIN", "2.9.4", INTEGER_MODES + FLOAT_MODES, NAN_MODE, traits=Trait.PICKS, degree=1),
    _reduction("REDUCE_PRODUCT", "2.9.5", FLOAT_MODES),
    _reduction("REDUCE_SUM", "2.9.6", INT32_MODES, traits=Trait.LINEAR, degree=1),
)
