"""Limits of an expansion: a few lines of compositional NNEF can ask for unlimited work."""

import contextlib
import sys
from collections.abc import Iterator

from tosaic.compiler.importers.nnef.errors import NnefError, Position

WORK_LIMIT = 8_000_000
TENSOR_WORK = 40
DEPTH_LIMIT = 6_000
STRING_LIMIT = 1 << 16
_FRAMES = 6 * DEPTH_LIMIT


class Budget:
    """Counts work (expressions evaluated, array items made) and the depth of evaluation."""

    def __init__(self) -> None:
        self.work = 0
        self.depth = 0

    def spend(self, amount: int, position: Position) -> None:
        self.work += amount
        if self.work > WORK_LIMIT:
            raise NnefError(
                "limit",
                position,
                f"the expansion takes more than {WORK_LIMIT} steps",
                "end the recursion, or store long arrays as variables",
            )

    def enter(self, position: Position) -> None:
        self.spend(1, position)
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise NnefError(
                "limit", position, f"the expansion is more than {DEPTH_LIMIT} deep", "end the recursion"
            )


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for evaluations of DEPTH_LIMIT. Python keeps the frames of its own functions off the C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
