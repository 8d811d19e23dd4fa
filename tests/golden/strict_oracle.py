"""Golden in strict mode against an oracle that says where the specification leaves the result open."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tosa_pseudocode as pseudocode

from tosaic.compiler.ir import DType
from tosaic.errors import UnpredictableError
from tosaic.sim.golden import evaluate_operator, strictly


def expected_or_none(function: Callable[[], np.ndarray]) -> np.ndarray | None:
    """The oracle's result; None where a REQUIRE does not hold."""
    try:
        return function()
    except pseudocode.Unpredictable:
        return None


def check(
    op: str,
    operands: Sequence[np.ndarray],
    attributes: Mapping[str, Any],
    out_t: DType,
    expected: np.ndarray | None,
) -> None:
    """Strict golden computes `expected`, or refuses the operands if that is None."""
    with strictly():
        if expected is None:
            with pytest.raises(UnpredictableError, match=f"^{op}: unpredictable by the specification: "):
                evaluate_operator(op, operands, attributes, [out_t])
            return
        (result,) = evaluate_operator(op, operands, attributes, [out_t])
    assert result.dtype == out_t.numpy
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
