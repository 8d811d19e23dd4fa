"""What a shape rule sees of an invocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.graph import Shape, TensorValue, Value

RANK_LIMIT = 32


class Call:
    """Arguments of one invocation; `within` names the standard compounds around it, innermost last."""

    def __init__(
        self, name: str, arguments: dict[str, Value], position: Position, within: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.position = position
        self.within = tuple(within)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def shape(self, name: str) -> Shape:
        """Shape of a tensor argument; a literal has rank 0."""
        return shape_of(self.arguments[name])

    def error(self, rule: str, found: str, way_out: str = "") -> NnefError:
        where = f"{self.name} in {self.within[0]}" if self.within else self.name
        return NnefError(rule, self.position, f"{where}: {found}", way_out)

    def require(self, condition: bool, rule: str, found: str, way_out: str = "") -> None:
        """Raises NnefError unless the condition holds."""
        if not condition:
            raise self.error(rule, found, way_out)


def shape_of(value: Value) -> Shape:
    """Returns the shape of a tensor; of anything else that of rank 0 (3.3.3)."""
    return value.shape if isinstance(value, TensorValue) else ()


def shown(shape: Shape) -> str:
    """A shape as NNEF writes it."""
    return str(list(shape))
