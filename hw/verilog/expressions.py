"""Verilog's expressions as values, each as wide as its context: what Verilog would extend by itself is extended here.

Nobody has to know the rules of contexts then, an expression may stand wherever its width fits, and lint can tell what
is meant from what is forgotten."""

import dataclasses
from collections.abc import Callable, Iterator

from .rtlil import Constant, RtlilSlice, Value

LEAST_RUN = 3
"""Equal parts of a concatenation that are written as `{3{part}}`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Concatenation:
    """Parts side by side, the highest bits first."""

    parts: tuple["Expression", ...]
    bits: int


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryWord:
    """Bits of a memory's word at an address: `bits` of them from `low` on."""

    memory: str
    address: "Expression"
    low: int
    bits: int


@dataclasses.dataclass(frozen=True, slots=True)
class VerilogOperation:
    """`operator` as in Verilog, or `$signed`; `?:` has its condition first."""

    operator: str
    operands: tuple["Expression", ...]
    bits: int


Expression = RtlilSlice | Constant | Concatenation | MemoryWord | VerilogOperation
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
REDUCTIONS = frozenset(("|", "&", "^"))
"""Operators of one operand."""


def constant(value: int, bits: int) -> Constant:
    return Constant(f"{value % (1 << bits):0{bits}b}" if bits else "")


def join(parts: Iterator[Expression] | list[Expression] | Value) -> Expression:
    """Parts side by side, the highest first; neighbours of one wire, and constants, become one part."""
    joined: list[Expression] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Concatenation) else (part,):
            if not piece.bits:
                continue
            last = joined[-1] if joined else None
            if (
                isinstance(piece, RtlilSlice)
                and isinstance(last, RtlilSlice)
                and _are_neighbours(last, piece)
            ):
                joined[-1] = RtlilSlice(piece.wire, piece.low, last.bits + piece.bits)
            elif isinstance(piece, Constant) and isinstance(last, Constant):
                joined[-1] = Constant(last.digits + piece.digits)
            else:
                joined.append(piece)
    if len(joined) == 1:
        return joined[0]
    return Concatenation(tuple(joined), sum(part.bits for part in joined))


def _are_neighbours(left: RtlilSlice, right: RtlilSlice) -> bool:
    return left.wire == right.wire and left.low == right.low + right.bits


def extend(value: Expression, bits: int, signed: bool = False) -> Expression:
    """The same number in `bits` bits, or its lowest ones of an operand of RTLIL."""
    more = bits - value.bits
    if more <= 0:
        return cut(value, 0, bits)
    if not signed or not value.bits:
        return join([constant(0, more), value])
    sign = cut(value, value.bits - 1, 1)
    return join([*[sign] * more, value])


def cut(value: Expression, low: int, bits: int) -> Expression:
    """Bits of what is no operation: `bits` of them from `low` on."""
    if low == 0 and bits == value.bits:
        return value
    match value:
        case RtlilSlice():
            return RtlilSlice(value.wire, value.low + low, bits)
        case Constant():
            return Constant(value.digits[value.bits - low - bits : value.bits - low])
        case Concatenation():
            kept, end = list[Expression](), value.bits
            for part in value.parts:
                start = end - part.bits
                first, last = max(start, low), min(end, low + bits)
                if first < last:
                    kept.append(cut(part, first - start, last - first))
                end = start
            return join(kept)
    raise ValueError(f"an operation has no bits {low} to {low + bits - 1} of its own: {value}")


def operands_of(value: Expression) -> tuple[Expression, ...]:
    """What it is made of."""
    match value:
        case Concatenation():
            return value.parts
        case MemoryWord():
            return (value.address,)
        case VerilogOperation():
            return value.operands
    return ()


def slices(value: Expression) -> Iterator[RtlilSlice]:
    """Every use of a wire."""
    if isinstance(value, RtlilSlice):
        yield value
    for operand in operands_of(value):
        yield from slices(operand)


def leaves(value: Expression) -> int:
    """Names and constants in it."""
    return sum(map(leaves, operands_of(value))) or 1


def replace(value: Expression, change: Callable[[RtlilSlice], Expression]) -> Expression:
    """The expression with every use of a wire changed into another expression of its width."""
    match value:
        case RtlilSlice():
            return change(value)
        case Concatenation():
            return join([replace(part, change) for part in value.parts])
        case MemoryWord():
            return dataclasses.replace(value, address=replace(value.address, change))
        case VerilogOperation():
            operands = tuple(replace(operand, change) for operand in value.operands)
            return operation(value.operator, operands, value.bits)
    return value


def operation(operator: str, operands: tuple[Expression, ...], bits: int) -> Expression:
    """An operation, or what it comes to where a bit of it is a constant."""
    if operator == "?:":
        return choice(*operands)
    if operator == "!":
        return complement(operands[0])
    if operator in ("==", "!="):
        return _comparison(operator, *operands)
    if bits == 1 and operator in ("&", "|") and len(operands) == 2:
        neutral = Constant("1" if operator == "&" else "0")
        others = [operand for operand in operands if operand != neutral]
        if len(others) < 2:
            return others[0] if others else neutral
        fixed = next((operand for operand in others if isinstance(operand, Constant)), None)
        if fixed is not None and fixed.digits in "01":
            return fixed
    return VerilogOperation(operator, operands, bits)


def _comparison(operator: str, a: Expression, b: Expression) -> Expression:
    """A comparison of the bits that are not constants of both."""
    bits = [(cut(a, low, 1), cut(b, low, 1)) for low in reversed(range(a.bits))] if _have_bits(a, b) else []
    if not any(isinstance(left, Constant) and isinstance(right, Constant) for left, right in bits):
        return VerilogOperation(operator, (a, b), 1)
    left, right = [], []
    for one, other in bits:
        if not isinstance(one, Constant) or not isinstance(other, Constant):
            left.append(one)
            right.append(other)
        elif one != other:
            return Constant("0" if operator == "==" else "1")
    if not left:
        return Constant("1" if operator == "==" else "0")
    return VerilogOperation(operator, (join(left), join(right)), 1)


def _have_bits(*values: Expression) -> bool:
    """Whether they can be cut; one with many parts, and a constant among them."""
    return any(isinstance(value, Concatenation) for value in values) and all(
        isinstance(part, RtlilSlice | Constant)
        for value in values
        for part in (value.parts if isinstance(value, Concatenation) else (value,))
    )


def complement(value: Expression) -> Expression:
    """The complement of one bit; that of a complement is the bit itself."""
    if isinstance(value, VerilogOperation) and value.operator == "!":
        return value.operands[0]
    if isinstance(value, Constant) and value.digits in "01":
        return Constant("1" if value.digits == "0" else "0")
    return VerilogOperation("!", (value,), 1)


def choice(condition: Expression, yes: Expression, no: Expression) -> Expression:
    """`condition ? yes : no`; of one bit by `&` and `|` where one of the two is a constant."""
    if isinstance(condition, Constant) and condition.digits in "01":
        return yes if condition.digits == "1" else no
    if isinstance(condition, VerilogOperation) and condition.operator == "!":
        condition, yes, no = condition.operands[0], no, yes
    one, zero = Constant("1"), Constant("0")
    if (yes, no) == (one, zero):
        return condition
    if no == zero:
        return VerilogOperation("&", (condition, yes), 1)
    if yes == one:
        return VerilogOperation("|", (condition, no), 1)
    if yes == zero:
        return operation("&", (complement(condition), no), 1)
    return VerilogOperation("?:", (condition, yes, no), yes.bits)


class Speller:
    """Texts of one module's expressions. `widths`: of its wires and memories."""

    def __init__(self, widths: dict[str, int]) -> None:
        self.widths = widths

    def text(self, value: Expression) -> str:
        """An expression, without parentheses around it."""
        match value:
            case RtlilSlice():
                return value.wire + self._range(value.wire, value.low, value.bits)
            case Constant():
                return number(value.digits)
            case Concatenation():
                return self._concatenation(value)
            case MemoryWord():
                word = f"{value.memory}[{self.text(value.address)}]"
                return word + self._range(value.memory, value.low, value.bits)
        return self._operation(value)

    def atom(self, value: Expression) -> str:
        """An expression that stands in another one."""
        text = self.text(value)
        return f"({text})" if isinstance(value, VerilogOperation) and value.operator != "$signed" else text

    def _range(self, name: str, low: int, bits: int) -> str:
        if bits == self.widths[name]:
            return ""
        return f"[{low}]" if bits == 1 else f"[{low + bits - 1}:{low}]"

    def _operation(self, value: VerilogOperation) -> str:
        operator, operands = value.operator, value.operands
        if operator == "$signed":
            return f"$signed({self.text(operands[0])})"
        if operator == "?:":
            return "{} ? {} : {}".format(*map(self.atom, operands))
        if len(operands) == 1:
            between = "" if operator in "!~" else " "
            return f"{operator}{between}{self.atom(operands[0])}"
        return f" {operator} ".join(map(self.atom, operands))

    def _concatenation(self, value: Concatenation) -> str:
        written, parts = [], list(value.parts)
        while parts:
            run = next((n for n, part in enumerate(parts) if part != parts[0]), len(parts))
            if run < LEAST_RUN:
                run = 1
            text = self.text(parts[0])
            written.append(f"{{{run}{{{text}}}}}" if run > 1 else text)
            parts = parts[run:]
        return f"{{ {', '.join(written)} }}" if len(written) > 1 else written[0]


def number(digits: str) -> str:
    """A constant; one with unknown bits, or not driven, by its bits."""
    if set(digits) <= {"0", "1"}:
        return f"{len(digits)}'h{int(digits, 2):0{-(-len(digits) // 4)}x}"
    return f"{len(digits)}'b{digits if len(set(digits)) > 1 else digits[0]}"
