"""The type of every expression (3.3.1, 3.3.3), before any value is known."""

from collections.abc import Mapping

from tosaic.compiler.importers.nnef.declarations import array_type
from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.invocations import arguments_of, declaration
from tosaic.compiler.importers.nnef.operators import (
    BINARY_FRAGMENTS,
    UNARY_FRAGMENTS,
    binary_type,
    unary_type,
)
from tosaic.compiler.importers.nnef.syntax import (
    ArrayExpression,
    Binary,
    Builtin,
    Comprehension,
    Expression,
    Fragment,
    Identifier,
    IfElse,
    Invocation,
    Literal,
    Range,
    Subscript,
    TupleExpression,
    Unary,
)
from tosaic.compiler.importers.nnef.type_system import (
    EMPTY,
    GENERIC,
    INTEGER,
    LOGICAL,
    SCALAR,
    STRING,
    ArrayType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
    bind,
    candidates,
    castable,
    common_type,
    kinds,
    literal_type,
)

Names = Mapping[str, Type]


class ExpressionTypes:
    """Types of the expressions of one body; `generic` says whether `?` has a meaning there."""

    def __init__(self, operations: Mapping[str, Fragment], generic: bool) -> None:
        self.operations = operations
        self.generic = generic

    def of(self, node: Expression, names: Names) -> Type:
        """The type of an expression. Raises NnefError if it has none."""
        match node:
            case Literal(value=value):
                return literal_type(value)
            case Identifier(name=name):
                if name not in names:
                    raise NnefError("V031", node.position, f"{name} is used before it is assigned")
                return names[name]
            case ArrayExpression(items=items):
                return array_type([self.of(item, names) for item in items], node.position)
            case TupleExpression(items=items):
                found = TupleType(tuple(self.of(item, names) for item in items))
                if len(kinds(found)) > 1:
                    raise NnefError("V028", node.position, f"the tuple {found} mixes tensors and attributes")
                return found
            case Unary(operator=operator, operand=operand):
                of = self.of(operand, names)
                if isinstance(of, TensorType):
                    return self._mapped(UNARY_FRAGMENTS[operator], [of], node.position)
                return unary_type(operator, of, node.position)
            case Binary(operator=operator, left=left, right=right):
                return self._binary(operator, self.of(left, names), self.of(right, names), node.position)
            case IfElse():
                return self._if_else(node, names)
            case Comprehension():
                return self._comprehension(node, names)
            case Subscript():
                return self._subscript(node, names)
            case Range(base=base, begin=begin, end=end):
                of = self.of(base, names)
                self._integers(names, begin, end)
                if of == STRING or isinstance(of, ArrayType):
                    return of
                raise NnefError(
                    "operands", node.position, f"a range of {of} is taken", "arrays and strings have ranges"
                )
            case Builtin():
                return self._builtin(node, names)
            case Invocation():
                return self._invocation(node, names)
        raise AssertionError(node)

    def _binary(self, operator: str, left: Type, right: Type, position: Position) -> Type:
        if operator in BINARY_FRAGMENTS and (isinstance(left, TensorType) or isinstance(right, TensorType)):
            return self._mapped(BINARY_FRAGMENTS[operator], [left, right], position)
        return binary_type(operator, left, right, position)

    def _mapped(self, name: str, given: list[Type], position: Position) -> Type:
        """An operator on tensors is the invocation of a fragment."""
        fragment = self.operations[name]
        pairs = {p.name: (of, position) for p, of in zip(fragment.parameters, given, strict=True)}
        return self._result(fragment, None, pairs, position)

    def _if_else(self, node: IfElse, names: Names) -> Type:
        self._logical(node.condition, names, "if")
        then, otherwise = self.of(node.then, names), self.of(node.otherwise, names)
        common = common_type(then, otherwise)
        if common is None:
            raise NnefError("operands", node.position, f"the branches of if-else are {then} and {otherwise}")
        return common

    def _comprehension(self, node: Comprehension, names: Names) -> Type:
        inner = dict(names)
        for name, array in node.iterators:
            of = self.of(array, names)
            if not isinstance(of, ArrayType) or of.item is None:
                raise NnefError(
                    "operands", array.position, f"{name} iterates over {of}", "iterate over an array"
                )
            inner[name] = of.item
        if node.condition is not None:
            self._logical(node.condition, inner, "if")
        return ArrayType(self.of(node.item, inner))

    def _subscript(self, node: Subscript, names: Names) -> Type:
        of = self.of(node.base, names)
        self._integers(names, node.index)
        if isinstance(of, TupleType):
            if not isinstance(node.index, Literal):
                raise NnefError("operands", node.position, "a tuple's subscript is no integer literal")
            if int(node.index.value) >= len(of.items):
                raise NnefError("V053", node.position, f"item {node.index.value} of {of} is taken")
            return of.items[int(node.index.value)]
        if of == STRING:
            return STRING
        if isinstance(of, ArrayType) and of.item is not None:
            return of.item
        raise NnefError(
            "operands", node.position, f"an item of {of} is taken", "arrays, tuples, strings have items"
        )

    def _builtin(self, node: Builtin, names: Names) -> Type:
        of = self.of(node.argument, names)
        if node.name == "shape_of":
            return ArrayType(INTEGER)
        if node.name in ("length_of", "range_of"):
            if of == STRING or isinstance(of, ArrayType):
                return INTEGER if node.name == "length_of" else ArrayType(INTEGER)
        elif isinstance(of, PrimitiveType) and (of.name != GENERIC or node.name == "string"):
            return PrimitiveType(node.name)
        raise NnefError("operands", node.position, f"{node.name} is applied to {of}")

    def _invocation(self, node: Invocation, names: Names) -> Type:
        fragment = declaration(self.operations, node)
        given = {
            name: (self.of(value, names), value.position)
            for name, value in arguments_of(fragment, node).items()
        }
        if node.generic is not None and not fragment.generic:
            raise NnefError(
                "generic", node.position, f"{node.name} is not generic", f"remove <{node.generic}>"
            )
        if node.generic == GENERIC and not self.generic:
            raise NnefError("V027", node.position, f"{node.name}<?> stands outside a generic fragment")
        return self._result(fragment, node.generic, given, node.position)

    def _result(
        self,
        fragment: Fragment,
        data: str | None,
        given: dict[str, tuple[Type, Position]],
        position: Position,
    ) -> Type:
        data = data or fragment.generic_default
        if fragment.generic and data is None:
            data = self._deduced(fragment, given, position)
        for parameter in fragment.parameters:
            if parameter.name in given:
                of, place = given[parameter.name]
                wanted = bind(parameter.type, data) if data else parameter.type
                if not castable(of, wanted):
                    raise mismatch(fragment.name, parameter.name, of, wanted, place)
        results = tuple(bind(result.type, data) if data else result.type for result in fragment.results)
        return results[0] if len(results) == 1 else TupleType(results)

    def _deduced(
        self, fragment: Fragment, given: dict[str, tuple[Type, Position]], position: Position
    ) -> str:
        found: set[str] = set()
        for parameter in fragment.parameters:
            if parameter.name in given:
                found |= candidates(parameter.type, given[parameter.name][0])
        if len(found) != 1:
            choices = " and ".join(sorted(found)) or "nothing"
            raise NnefError(
                "generic",
                position,
                f"the data-type of {fragment.name} follows as {choices}",
                f"write {fragment.name}<...>",
            )
        return found.pop()

    def _logical(self, node: Expression, names: Names, what: str) -> None:
        of = self.of(node, names)
        if of != LOGICAL:
            raise NnefError(
                "operands", node.position, f"the condition of {what} is {of}", "it must be logical"
            )

    def _integers(self, names: Names, *nodes: Expression | None) -> None:
        for node in nodes:
            if node is not None and (of := self.of(node, names)) != INTEGER:
                raise NnefError("operands", node.position, f"a subscript is {of}", "it must be an integer")


def mismatch(operation: str, parameter: str, of: Type, wanted: Type, position: Position) -> NnefError:
    """The error of an argument whose type cannot be cast to the parameter's."""
    rule = "V046"
    if isinstance(of, TensorType) and isinstance(wanted, TensorType):
        rule = "V047"
    elif _core(of) == INTEGER and _core(wanted) == SCALAR:
        rule = "V045"
    return NnefError(
        rule,
        position,
        f"{parameter} of {operation} is {of}, not {wanted}",
        "write a decimal point, or scalar(...)" if rule == "V045" else "",
    )


def _core(of: Type) -> Type:
    """The primitive type inside arrays and tensors."""
    while isinstance(of, ArrayType) and of != EMPTY:
        assert of.item is not None
        of = of.item
    return PrimitiveType(of.data) if isinstance(of, TensorType) and of.data else of
