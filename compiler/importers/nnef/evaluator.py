"""Values of expressions (3.3.3): compile-time arithmetic, and tensors by invoking operations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tosaic.compiler.importers.nnef.budget import STRING_LIMIT, Budget
from tosaic.compiler.importers.nnef.call import shape_of
from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.graph import TensorValue, Value
from tosaic.compiler.importers.nnef.operators import (
    BINARY_FRAGMENTS,
    UNARY_FRAGMENTS,
    binary_value,
    convert,
    unary_value,
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
from tosaic.compiler.importers.nnef.type_system import GENERIC

Invoke = Callable[[str, str | None, dict[str, Value], Position], Value]


@dataclass(slots=True)
class Environment:
    """Values by identifier, and what `?` stands for."""

    names: dict[str, Value]
    generic: str | None
    graph_body: bool = True


class Evaluator:
    """Evaluates expressions that the checker has typed; `invoke` runs operations."""

    def __init__(self, budget: Budget, invoke: Invoke, operations: Mapping[str, Fragment]) -> None:
        self.budget = budget
        self.invoke = invoke
        self.parameters = {name: [p.name for p in each.parameters] for name, each in operations.items()}

    def value(self, node: Expression, environment: Environment) -> Value:
        """The value of an expression. Raises NnefError."""
        if isinstance(node, Literal):
            return node.value
        self.budget.enter(node.position)
        found = self._value(node, environment)
        self.budget.depth -= 1
        return found

    def _value(self, node: Expression, environment: Environment) -> Value:
        match node:
            case Identifier(name=name):
                return environment.names[name]
            case ArrayExpression(items=items):
                return [self.value(item, environment) for item in items]
            case TupleExpression(items=items):
                return tuple([self.value(item, environment) for item in items])
            case Invocation():
                return self._invocation(node, environment)
            case Binary():
                return self._binary(node, environment)
            case Unary(operator=operator, operand=operand):
                value = self.value(operand, environment)
                if isinstance(value, TensorValue):
                    return self.invoke(UNARY_FRAGMENTS[operator], None, {"x": value}, node.position)
                assert not isinstance(value, list | tuple)
                return unary_value(operator, value, node.position)
            case IfElse(condition=condition, then=then, otherwise=otherwise):
                # Lazy: the other branch may be invalid (3.3.3).
                return self.value(then if self.value(condition, environment) else otherwise, environment)
            case Comprehension():
                return self._comprehension(node, environment)
            case Subscript(base=base, index=index):
                value, at = self.value(base, environment), self.value(index, environment)
                assert isinstance(value, list | tuple | str) and isinstance(at, int)
                if not 0 <= at < len(value):
                    raise NnefError(
                        "V053", node.position, f"item {at} of {len(value)} is taken", "they count from 0"
                    )
                return value[at]
            case Range():
                return self._range(node, environment)
            case Builtin():
                return self._builtin(node, environment)
        raise AssertionError(node)

    def _invocation(self, node: Invocation, environment: Environment) -> Value:
        generic = environment.generic if node.generic == GENERIC else node.generic
        names = self.parameters[node.name]
        given = {
            argument.name or names[i]: self.value(argument.value, environment)
            for i, argument in enumerate(node.arguments)
        }
        return self.invoke(node.name, generic, given, node.position)

    def _binary(self, node: Binary, environment: Environment) -> Value:
        operator, position = node.operator, node.position
        left = self.value(node.left, environment)
        if isinstance(left, bool) and operator in ("&&", "||") and left == (operator == "||"):
            # Decided by the left side alone, unless the right side is a tensor.
            if not self._is_tensor(node.right, environment):
                return left
        right = self.value(node.right, environment)
        if operator in BINARY_FRAGMENTS and (isinstance(left, TensorValue) or isinstance(right, TensorValue)):
            return self.invoke(BINARY_FRAGMENTS[operator], None, {"x": left, "y": right}, position)
        if operator == "in":
            assert isinstance(right, list)
            self.budget.spend(len(right), position)
            return any([_matches(left, item) for item in right])
        if isinstance(left, list | str) and operator in "+*":
            return self._joined(operator, left, right, position)
        assert not isinstance(left, list | tuple | TensorValue)
        assert not isinstance(right, list | tuple | TensorValue)
        return binary_value(operator, left, right, position)

    def _is_tensor(self, node: Expression, environment: Environment) -> bool:
        return isinstance(node, Identifier) and isinstance(environment.names.get(node.name), TensorValue)

    def _joined(self, operator: str, left: Value, right: Value, position: Position) -> Value:
        assert isinstance(left, list | str)
        length = 0
        if operator == "+":
            assert isinstance(right, list | str)
            length = len(left) + len(right)
        else:
            assert isinstance(right, int)
            if right < 0:
                raise NnefError("arithmetic", position, f"an array or string is repeated {right} times")
            length = len(left) * right
        if isinstance(left, str) and length > STRING_LIMIT:
            raise NnefError("limit", position, f"a string has {length} characters, at most {STRING_LIMIT}")
        self.budget.spend(length, position)
        return left + right if operator == "+" else left * right  # type: ignore[operator]  # checked above

    def _comprehension(self, node: Comprehension, environment: Environment) -> Value:
        arrays = [self.value(array, environment) for _, array in node.iterators]
        lengths = [len(array) for array in arrays if isinstance(array, list)]
        if len(set(lengths)) > 1:
            raise NnefError(
                "V052", node.position, f"the iterated arrays have {lengths} items", "make them equal"
            )
        result: list[Value] = []
        names = [name for name, _ in node.iterators]
        inner = Environment(dict(environment.names), environment.generic, environment.graph_body)
        for at in range(lengths[0]):
            self.budget.spend(1, node.position)
            for name, array in zip(names, arrays, strict=True):
                assert isinstance(array, list)
                inner.names[name] = array[at]
            if node.condition is None or self.value(node.condition, inner):
                result.append(self.value(node.item, inner))
        return result

    def _range(self, node: Range, environment: Environment) -> Value:
        value = self.value(node.base, environment)
        assert isinstance(value, list | str)
        begin = 0 if node.begin is None else self.value(node.begin, environment)
        end = len(value) if node.end is None else self.value(node.end, environment)
        assert isinstance(begin, int) and isinstance(end, int)
        if begin < 0 or end > len(value) or end < 0 or begin > len(value):
            raise NnefError("V053", node.position, f"the range {begin}:{end} leaves 0:{len(value)}")
        part = value[begin:end]
        self.budget.spend(len(part), node.position)
        return part

    def _builtin(self, node: Builtin, environment: Environment) -> Value:
        value = self.value(node.argument, environment)
        if node.name == "shape_of":
            return list(shape_of(value))
        if node.name == "length_of":
            assert isinstance(value, list | str)
            return len(value)
        if node.name == "range_of":
            assert isinstance(value, list | str)
            self.budget.spend(len(value), node.position)
            return list(range(len(value)))
        assert not isinstance(value, list | tuple | TensorValue)
        return convert(node.name, value, node.position)


def _matches(a: Value, b: Value) -> bool:
    """Compares deeply; a tensor matches itself."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all([_matches(x, y) for x, y in zip(a, b, strict=True)])
    return a is b or (not isinstance(a, TensorValue) and a == b)
