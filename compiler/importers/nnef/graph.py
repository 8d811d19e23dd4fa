"""A flat graph: operations in topological order, and tensors with data-type and shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from tosaic.compiler.importers.nnef.errors import Position

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class TensorValue:
    """A tensor. `data` is integer, scalar, logical or string; `producer` is the operation that makes it."""

    name: str
    data: str
    shape: Shape
    producer: NnefOperation | None = None

    def __repr__(self) -> str:
        return f"{self.name}: tensor<{self.data}>{list(self.shape)}"


PrimitiveValue = int | float | bool | str
# Arrays are lists, tuples are tuples; a primitive that stands for a tensor has rank 0 (4.1.2).
Value = PrimitiveValue | TensorValue | list["Value"] | tuple["Value", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Provenance:
    """The invocation of a standard operation in the document that one or more operations come from.

    `target` is the identifier of the graph body that is being assigned.
    """

    name: str
    target: str
    position: Position


@dataclass(eq=False, slots=True)
class NnefOperation:
    """An invocation with every argument known, defaults included. `data` is what `?` stands for, or None."""

    name: str
    data: str | None
    arguments: dict[str, Value]
    origin: Provenance
    results: dict[str, TensorValue | list[TensorValue]] = field(default_factory=dict)

    @property
    def position(self) -> Position:
        """Where the document invokes it."""
        return self.origin.position

    def tensors(self) -> list[TensorValue]:
        """The results, those of an array one after the other."""
        found: list[TensorValue] = []
        for result in self.results.values():
            found += [result] if isinstance(result, TensorValue) else result
        return found


@dataclass(eq=False, slots=True)
class FlatGraph:
    """`inputs` and `outputs` are identifiers, `tensors` has all identifiers of the graph body.

    Two identifiers may name one tensor. `variables` has the variable operations' results by label.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: list[NnefOperation]
    tensors: dict[str, TensorValue]
    variables: dict[str, list[TensorValue]]


def tensors_in(value: Value | dict[str, Value]) -> list[TensorValue]:
    """The tensors inside a value, from left to right."""
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []
