"""TOSA's REQUIRE (0.30 section 3.1): outside strict mode it costs nothing, in it a broken one is an error.

A kernel says each REQUIRE of its pseudo-code once, at its place, with `require`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from tosaic.compiler.ir import DType
from tosaic.errors import UnpredictableError

_STRICT: ContextVar[bool] = ContextVar("strict", default=False)
_OPERATOR: ContextVar[str] = ContextVar("operator", default="an operator")


@contextmanager
def strictly(strict: bool = True) -> Iterator[None]:
    """A context in which `require` raises UnpredictableError (`strict`) or does nothing."""
    token = _STRICT.set(strict)
    try:
        yield
    finally:
        _STRICT.reset(token)


@contextmanager
def on_behalf_of(operator: str) -> Iterator[None]:
    """A context in which errors of `require` name `operator`."""
    token = _OPERATOR.set(operator)
    try:
        yield
    finally:
        _OPERATOR.reset(token)


def is_strict() -> bool:
    """Whether a broken REQUIRE is an error now. Costly preparations of `require` ask."""
    return _STRICT.get()


def require(rule: str, value: np.ndarray, holds: Callable[[np.ndarray], np.ndarray]) -> None:
    """REQUIRE(holds(value)), element by element; `holds` may broadcast `value` with other arrays.

    In strict mode UnpredictableError with the operator, the `rule` in words, the first element and its value.
    """
    if not is_strict():
        return
    held = np.asarray(holds(value))
    if held.all():
        return
    element = tuple(int(i) for i in np.argwhere(~held)[0])
    found = np.broadcast_to(value, held.shape)[element].item()
    raise UnpredictableError(
        f"{_OPERATOR.get()}: unpredictable by the specification: it requires that {rule}; "
        f"at element {list(element)} it is {found}"
    )


def require_range(what: str, value: np.ndarray, dtype: DType) -> None:
    """Checks the REQUIRE of apply_add and apply_sub (section 3.3.1): int64 `value` lies in the range of `dtype`."""
    require(
        f"{what} lies in the range of {dtype.name.lower()}",
        value,
        lambda v: (v >= dtype.min) & (v <= dtype.max),
    )


Terms = Iterable[tuple[tuple[slice, ...], np.ndarray]]
"""(where, values): what is added to which part of the sums, in the order of the pseudo-code."""


def require_partial_sums(
    start: np.ndarray, terms: Callable[[], Terms], largest: Callable[[], int], dtype: DType
) -> None:
    """Checks the REQUIRE of apply_add for every sum on the way from `start` by `terms`, all int64.

    `largest` bounds the magnitude of these sums: where it fits `dtype`, nothing is added up.
    """
    if not is_strict() or largest() <= dtype.max:
        return
    sums = start.astype(np.int64)
    for where, values in terms():
        sums[where] += values
        require_range("each partial sum", sums, dtype)
