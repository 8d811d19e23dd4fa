"""Types of NNEF expressions and the implicit casts between them (3.3.1)."""

from __future__ import annotations

from dataclasses import dataclass

GENERIC = "?"
DATA_TYPES = ("integer", "scalar", "logical", "string")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """integer, scalar, logical, string, or `?` inside a generic fragment."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """`data` is the data-type, or None for the unbound `tensor<>`."""

    data: str | None

    def __str__(self) -> str:
        return f"tensor<{self.data or ''}>"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """`item` is None for the type of the literal `[]`."""

    item: Type | None

    def __str__(self) -> str:
        return "[]" if self.item is None else f"{self.item}[]"


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({','.join(map(str, self.items))})"


Type = PrimitiveType | TensorType | ArrayType | TupleType
INTEGER, SCALAR, LOGICAL, STRING = (PrimitiveType(name) for name in DATA_TYPES)
EMPTY = ArrayType(None)


def literal_type(value: int | float | bool | str) -> PrimitiveType:
    """The type of a compile-time value of primitive type."""
    if isinstance(value, bool):
        return LOGICAL
    if isinstance(value, int):
        return INTEGER
    return SCALAR if isinstance(value, float) else STRING


def castable(given: Type, wanted: Type, *, as_input: bool = True) -> bool:
    """Whether a value of type `given` may stand where `wanted` is. `as_input` allows primitives as tensors."""
    match given, wanted:
        case PrimitiveType(a), PrimitiveType(b):
            return a == b
        case PrimitiveType(a), TensorType(b):
            return as_input and b in (None, a)
        case TensorType(a), TensorType(b):
            return b in (None, a)
        case ArrayType(None), ArrayType(_):
            return True
        case ArrayType(a), ArrayType(b):
            return a is not None and b is not None and castable(a, b, as_input=as_input)
        case TupleType(a), TupleType(b):
            return len(a) == len(b) and all(
                castable(x, y, as_input=as_input) for x, y in zip(a, b, strict=True)
            )
    return False


def common_type(a: Type, b: Type) -> Type | None:
    """The type that both can be cast to, which is one of the two; None if there is none."""
    if castable(a, b):
        return b
    return a if castable(b, a) else None


def kinds(of: Type) -> set[bool]:
    """{True} for types of tensors only, {False} for attribute types, both for a forbidden mixture."""
    match of:
        case TensorType():
            return {True}
        case ArrayType(item) if item is not None:
            return kinds(item)
        case TupleType(items):
            return set().union(*map(kinds, items))
    return {False}


def is_generic(of: Type) -> bool:
    """Whether `?` occurs in a type."""
    match of:
        case PrimitiveType(name) | TensorType(name):
            return name == GENERIC
        case ArrayType(item):
            return item is not None and is_generic(item)
        case TupleType(items):
            return any(map(is_generic, items))
    return False


def bind(of: Type, data: str) -> Type:
    """The type with `?` replaced by a data-type."""
    match of:
        case PrimitiveType("?"):
            return PrimitiveType(data)
        case TensorType("?"):
            return TensorType(data)
        case ArrayType(item) if item is not None:
            return ArrayType(bind(item, data))
        case TupleType(items):
            return TupleType(tuple(bind(item, data) for item in items))
    return of


def candidates(wanted: Type, given: Type) -> set[str]:
    """The data-types that `?` in `wanted` may stand for, when `given` is substituted."""
    match wanted, given:
        case PrimitiveType("?"), PrimitiveType(name):
            return {name}
        case TensorType("?"), (PrimitiveType(name) | TensorType(name)):
            return set() if name is None else {name}
        case ArrayType(a), ArrayType(b) if a is not None and b is not None:
            return candidates(a, b)
        case TupleType(a), TupleType(b) if len(a) == len(b):
            return set().union(*(candidates(x, y) for x, y in zip(a, b, strict=True)))
    return set()
