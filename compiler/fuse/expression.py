"""The vector unit's work as an expression: nodes are micro-operations, leaves are tensors, constants and the array."""

import dataclasses
import typing

from tosaic.hw.isa import Element, Op


@dataclasses.dataclass(frozen=True)
class Load:
    """An operand in memory: tensor by name, as elements of a type."""

    tensor: str
    element: Element
    shared: bool = False
    """Equal operands take turns on one stream: each reads what follows the one before."""


@dataclasses.dataclass(frozen=True)
class Immediate:
    value: int


@dataclasses.dataclass(frozen=True)
class ArrayResult:
    """The accumulators that leave the array."""


@dataclasses.dataclass(frozen=True)
class Iteration:
    """Number of the body's repetition: the index along the reduced axis."""


@dataclasses.dataclass(eq=False)
class Node:
    """One micro-operation; the fields are those of VECTOR_UOP."""

    op: Op
    a: "Value"
    b: "Value | None" = None
    bias: bool = False
    per_channel: bool = False
    round: bool = False
    clamp: tuple[int, int] | None = None
    wrap32: bool = False
    shift: int = 0
    a_zp: int = 0
    out_zp: int = 0
    multiplier: int = 0
    average: bool = False
    """RESCALE whose multiplier and shift divide by the number of positions in a pool's window."""
    layer_tensor: str | None = None
    """Name of the TOSA tensor that this node computes, for messages."""


@dataclasses.dataclass(eq=False)
class Reduced:
    """The result of a reduction: the running value that the body's repetitions leave behind."""

    combine: Op
    start: int
    term: "Value"
    """Evaluated in the body for every repetition."""
    a_zp: int = 0
    """Subtracted from each term."""


Value: typing.TypeAlias = Node | Load | Immediate | ArrayResult | Iteration | Reduced


def clamped(value: Value, low: int, high: int, uses: int) -> Node:
    """`value` limited to low..high, inside the node that makes it when nobody else uses that."""
    if isinstance(value, Node) and uses == 1 and not value.wrap32:
        if value.clamp is not None:
            low, high = max(low, min(high, value.clamp[0])), min(high, max(low, value.clamp[1]))
        value.clamp = (low, high)
        return value
    return Node(Op.MOV, value, clamp=(low, high))


def substituted(value: Value, old: Value, new: Value) -> Value:
    """A copy of an expression that has `new` where `old` is."""
    copies: dict[int, Value] = {id(old): new}

    def copy(part: Value) -> Value:
        if id(part) not in copies:
            copies[id(part)] = part
            if isinstance(part, Node):
                b = None if part.b is None else copy(part.b)
                copies[id(part)] = dataclasses.replace(part, a=copy(part.a), b=b)
        return copies[id(part)]

    return copy(value)
