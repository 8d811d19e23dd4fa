"""The syntax tree of an NNEF document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tosaic.compiler.importers.nnef.errors import Position
from tosaic.compiler.importers.nnef.type_system import Type


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    position: Position = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    value: int | float | bool | str


@dataclass(frozen=True, slots=True)
class Identifier(SyntaxNode):
    name: str


@dataclass(frozen=True, slots=True)
class ArrayExpression(SyntaxNode):
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class TupleExpression(SyntaxNode):
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unary(SyntaxNode):
    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(SyntaxNode):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class IfElse(SyntaxNode):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Comprehension(SyntaxNode):
    """`[for NAME in ARRAY, ... if CONDITION yield ITEM]`."""

    iterators: tuple[tuple[str, Expression], ...]
    condition: Expression | None
    item: Expression


@dataclass(frozen=True, slots=True)
class Subscript(SyntaxNode):
    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Range(SyntaxNode):
    base: Expression
    begin: Expression | None
    end: Expression | None


@dataclass(frozen=True, slots=True)
class Builtin(SyntaxNode):
    name: str
    argument: Expression


@dataclass(frozen=True, slots=True)
class Argument(SyntaxNode):
    name: str | None
    value: Expression


@dataclass(frozen=True, slots=True)
class Invocation(SyntaxNode):
    """`generic` is the data-type in angle brackets, `?` for the enclosing fragment's, or None."""

    name: str
    generic: str | None
    arguments: tuple[Argument, ...]


Expression = (
    Literal
    | Identifier
    | ArrayExpression
    | TupleExpression
    | Unary
    | Binary
    | IfElse
    | Comprehension
    | Subscript
    | Range
    | Builtin
    | Invocation
)


@dataclass(frozen=True, slots=True)
class Assignment(SyntaxNode):
    """`target` is an identifier, or an array or tuple of targets."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Parameter(SyntaxNode):
    name: str
    type: Type
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Fragment(SyntaxNode):
    """A declaration; `body` is None for a primitive operation."""

    name: str
    generic: bool
    generic_default: str | None
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    body: tuple[Assignment, ...] | None


@dataclass(frozen=True, slots=True)
class GraphDefinition(SyntaxNode):
    name: str
    parameters: tuple[Identifier, ...]
    results: tuple[Identifier, ...]
    body: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Document(SyntaxNode):
    version: str
    extensions: tuple[str, ...]
    fragments: tuple[Fragment, ...]
    graph: GraphDefinition


def identifiers_of(target: Expression) -> Iterator[Identifier]:
    """The identifiers of an assignment's left side, from left to right."""
    if isinstance(target, Identifier):
        yield target
    elif isinstance(target, ArrayExpression | TupleExpression):
        for item in target.items:
            yield from identifiers_of(item)


def children(node: Expression) -> Iterator[Expression]:
    """The expressions that an expression is made of."""
    match node:
        case ArrayExpression(items=items) | TupleExpression(items=items):
            yield from items
        case Unary(operand=operand):
            yield operand
        case Binary(left=left, right=right):
            yield from (left, right)
        case IfElse(condition=condition, then=then, otherwise=otherwise):
            yield from (condition, then, otherwise)
        case Comprehension(iterators=iterators, condition=condition, item=item):
            yield from (array for _, array in iterators)
            yield from (part for part in (condition, item) if part is not None)
        case Subscript(base=base, index=index):
            yield from (base, index)
        case Range(base=base, begin=begin, end=end):
            yield from (part for part in (base, begin, end) if part is not None)
        case Builtin(argument=argument):
            yield argument
        case Invocation(arguments=arguments):
            yield from (argument.value for argument in arguments)
