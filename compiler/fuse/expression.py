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
    bounds: tuple[int, int] | None = None
    """The least and the largest element, if more is known than its type."""
    turn: str = dataclasses.field(default="", compare=False)
    """Which part this operand is, of equal ones that are parts of one tensor."""


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
    """Zero point that is subtracted from each term."""
    wrap32: bool = False
    """The running value wraps to 32 bits."""


Value: typing.TypeAlias = Node | Load | Immediate | ArrayResult | Iteration | Reduced


def clamped(value: Value, low: int, high: int, uses: int, added: int = 0) -> Node:
    """`value` + `added` limited to low..high, inside the node that makes it when nobody else uses that."""
    if isinstance(value, Node) and uses == 1 and not (value.wrap32 and _wraps(value)):
        if value.clamp is not None:
            first, last = (end + added for end in value.clamp)
            low, high = max(low, min(high, first)), min(high, max(low, last))
        value.out_zp, value.clamp, value.wrap32 = value.out_zp + added, (low, high), False
        return value
    return Node(Op.MOV, value, out_zp=added, clamp=(low, high))


_INT32 = (-(1 << 31), (1 << 31) - 1)
_WIDEST = (-(1 << 47), (1 << 47) - 1)


def _wraps(node: Node) -> bool:
    """Whether what a node computes may need more than 32 bits."""
    low, high = _before_wrap(node)
    return low < _INT32[0] or high > _INT32[1]


def range_of(value: Value | None) -> tuple[int, int]:
    """What values an operand may have: the widest range if nothing is known."""
    if isinstance(value, Immediate):
        return value.value, value.value
    if isinstance(value, Load) and value.bounds is not None:
        return value.bounds
    if isinstance(value, Load):
        bits = 8 * value.element.bytes
        unsigned = value.element in (Element.UINT8, Element.UINT16)
        return (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if isinstance(value, ArrayResult):
        return _INT32
    if not isinstance(value, Node):
        return _WIDEST
    low, high = _before_wrap(value)
    return _INT32 if value.wrap32 and (low < _INT32[0] or high > _INT32[1]) else (low, high)


def _before_wrap(node: Node) -> tuple[int, int]:
    low, high = _before_clamp(node)
    if node.clamp is None:
        return low, high
    first, last = node.clamp
    return min(max(low, first), last), min(max(high, first), last)


def _before_clamp(node: Node) -> tuple[int, int]:
    low, high = (end - node.a_zp for end in range_of(node.a))
    least, most = range_of(node.b) if node.b is not None else (0, 0)
    if node.average or (node.bias and node.op is not Op.RESCALE):
        return _WIDEST
    if node.bias:
        low, high = _WIDEST
    if node.op is Op.RESCALE:
        # That of TOSA has a shift of 2 at least, and a result that fits 32 bits.
        low, high = _INT32 if node.per_channel else _scaled(low, high, node)
        low, high = low + least, high + most
    elif node.op is Op.MUL:
        ends = [a * b for a in (low, high) for b in (least, most)]
        low, high = min(ends) >> node.shift, (max(ends) >> node.shift) + 1
    elif node.op is Op.ADD:
        low, high = low + least, high + most
    elif node.op is not Op.MOV:
        return _WIDEST
    return low + node.out_zp, high + node.out_zp


def _scaled(low: int, high: int, node: Node) -> tuple[int, int]:
    ends = [end * node.multiplier >> node.shift for end in (low, high)]
    low, high = min(ends), max(ends) + 1
    return (max(low, _INT32[0]), min(high, _INT32[1])) if node.shift >= 2 else (low, high)


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
