"""Parses expressions, flat (A.1) and compositional (A.2)."""

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.syntax import (
    Argument,
    ArrayExpression,
    Binary,
    Builtin,
    Comprehension,
    Expression,
    Identifier,
    IfElse,
    Invocation,
    Literal,
    Range,
    Subscript,
    TupleExpression,
    Unary,
)
from tosaic.compiler.importers.nnef.token_stream import TokenStream
from tosaic.compiler.importers.nnef.type_system import DATA_TYPES, GENERIC

OPERATORS_EXTENSION = "KHR_enable_operator_expressions"
CHAIN_LIMIT = 1000
BUILTINS = frozenset(("shape_of", "length_of", "range_of", *DATA_TYPES))
# From lowest to highest (3.3.3). Equal ones group from the left; the text does not say.
_LEVELS = (("in",), ("&&", "||"), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/"), ("^",))
_PRECEDENCE = {operator: level for level, operators in enumerate(_LEVELS) for operator in operators}
# Table 1 and the lexer write && and ||, the grammar writes and, or: both are read.
_WORDS = {"and": "&&", "or": "||"}


class ExpressionParser:
    """Parses expressions from a token stream; `extended` is KHR_enable_operator_expressions."""

    def __init__(self, stream: TokenStream, extended: bool) -> None:
        self.stream = stream
        self.extended = extended
        self._chained = 0

    def assigned(self) -> Expression:
        """The right side of an assignment: an invocation, or with the extension any expression or bare tuple."""
        start = self.stream.position
        self._chained = 0
        if not self.extended and self.stream.token.kind != "identifier":
            raise self._needs_extension(start, "an assigned expression that is no invocation")
        first = self.expression()
        if not self.extended and not isinstance(first, Invocation):
            raise self._needs_extension(start, "an assigned expression that is no invocation")
        if not self.stream.sees(","):
            return first
        items = [first]
        while self.stream.accept(","):
            items.append(self.expression())
        return TupleExpression(start, tuple(items))

    def expression(self) -> Expression:
        """Any right-value expression."""
        token = self.stream.token
        if token.kind == "number" and self.stream.following.text in (",", "]"):
            # Long constants are made of these.
            self.stream.next()
            return Literal(token.position, token.value)
        with self.stream.nested():
            value = self._binary(0)
            if not self.stream.sees("if"):
                return value
            self._extension("if-else")
            self.stream.next()
            condition = self._binary(0)
            self.stream.take("else", "after the condition of if")
            return IfElse(value.position, condition, value, self.expression())

    def _binary(self, lowest: int) -> Expression:
        left = self._unary()
        while True:
            token = self.stream.token
            operator = _WORDS.get(token.text, token.text) if token.kind != "string" else ""
            level = _PRECEDENCE.get(operator, -1)
            if level < lowest:
                return left
            self._extension(f"the operator {token.text}")
            self._chain()
            self.stream.next()
            with self.stream.nested():
                left = Binary(token.position, operator, left, self._binary(level + 1))

    def _unary(self) -> Expression:
        token = self.stream.token
        if not self.stream.sees("+", "-", "!"):
            return self._postfix(self._primary())
        self.stream.next()
        number = self.stream.token
        if not self.extended and token.text == "-" and number.kind == "number":
            self.stream.next()
            assert isinstance(number.value, int | float)
            return Literal(token.position, -number.value)
        if not self.extended:
            raise self._needs_extension(token.position, f"the operator {token.text}")
        with self.stream.nested():
            return Unary(token.position, token.text, self._unary())

    def _postfix(self, base: Expression) -> Expression:
        while self.stream.sees("["):
            self._extension("a subscript")
            self._chain()
            position = self.stream.next().position
            begin = None if self.stream.sees(":") else self.expression()
            if self.stream.accept(":"):
                end = None if self.stream.sees("]") else self.expression()
                base = Range(position, base, begin, end)
            else:
                assert begin is not None
                base = Subscript(position, base, begin)
            self.stream.take("]", "after a subscript")
        return base

    def _primary(self) -> Expression:
        token = self.stream.token
        if token.kind in ("number", "string", "logical"):
            self.stream.next()
            return Literal(token.position, token.value)
        if token.kind == "identifier":
            if self.stream.following.text in ("(", "<") and self._starts_invocation():
                return self._invocation()
            self.stream.next()
            return Identifier(token.position, token.text)
        if token.kind == "keyword" and token.text in BUILTINS:
            self._extension(f"the built-in {token.text}")
            self.stream.next()
            self.stream.take("(", f"after {token.text}")
            argument = self.expression()
            self.stream.take(")", f"after the argument of {token.text}")
            return Builtin(token.position, token.text, argument)
        if self.stream.accept("["):
            return self._array(token.position)
        if self.stream.accept("("):
            return self._tuple(token.position)
        if token.kind == "keyword":
            raise NnefError("V010", token.position, f"the keyword {token.text!r} stands for a value")
        raise self.stream.unexpected("an expression")

    def _array(self, position: Position) -> Expression:
        if self.stream.sees("for"):
            self._extension("an array comprehension")
            self.stream.next()
            return self._comprehension(position)
        items: list[Expression] = []
        while not self.stream.accept("]"):
            if items:
                self.stream.take(",", "between the items of an array")
            items.append(self.expression())
        return ArrayExpression(position, tuple(items))

    def _comprehension(self, position: Position) -> Expression:
        iterators: list[tuple[str, Expression]] = []
        while not iterators or self.stream.accept(","):
            name = self.stream.identifier("the name of a loop iterator").text
            self.stream.take("in", "after the name of a loop iterator")
            iterators.append((name, self._binary(0)))
        condition = self._binary(0) if self.stream.accept("if") else None
        self.stream.take("yield", "after the iterators of a comprehension")
        item = self.expression()
        self.stream.take("]", "after a comprehension")
        return Comprehension(position, tuple(iterators), condition, item)

    def _tuple(self, position: Position) -> Expression:
        items = [self.expression()]
        while self.stream.accept(","):
            items.append(self.expression())
        self.stream.take(")", "after a tuple or a parenthesis")
        if len(items) > 1:
            return TupleExpression(position, tuple(items))
        if not self.extended:
            raise self._needs_extension(position, "a parenthesis")
        return items[0]

    def _starts_invocation(self) -> bool:
        """Tells `name<type>(` from a comparison."""
        tokens = [token.text for token in self.stream.tokens[self.stream.at + 1 : self.stream.at + 5]]
        return tokens[:1] == ["("] or (len(tokens) == 4 and tokens[2:] == [">", "("])

    def _invocation(self) -> Expression:
        token = self.stream.next()
        if not self.extended and self.stream.depth > 1:
            raise NnefError(
                "V007",
                token.position,
                f"{token.text} is invoked inside an argument",
                f"assign it to a name first, or write `extension {OPERATORS_EXTENSION};`",
            )
        generic = None
        if self.stream.accept("<"):
            chosen = self.stream.next()
            generic = chosen.text
            if generic not in (*DATA_TYPES, GENERIC):
                raise NnefError(
                    "generic",
                    chosen.position,
                    f"{generic[:40]} is no data-type",
                    f"write one of {DATA_TYPES}",
                )
            self.stream.take(">", "after a data-type")
        self.stream.take("(", "before the arguments")
        arguments: list[Argument] = []
        while not self.stream.accept(")"):
            if arguments:
                self.stream.take(",", "between arguments")
            arguments.append(self._argument())
        return Invocation(token.position, token.text, generic, tuple(arguments))

    def _argument(self) -> Argument:
        position, name = self.stream.position, None
        if self.stream.following.text == "=" and self.stream.following.kind == "symbol":
            name = self.stream.identifier("the name of an argument").text
            self.stream.next()
        return Argument(position, name, self.expression())

    def _chain(self) -> None:
        """Chains make trees as deep as nesting does."""
        self._chained += 1
        if self._chained > CHAIN_LIMIT:
            raise NnefError(
                "limit",
                self.stream.position,
                f"an assignment has more than {CHAIN_LIMIT} operators",
                "use a local name",
            )

    def _extension(self, what: str) -> None:
        if not self.extended:
            raise self._needs_extension(self.stream.position, what)

    def _needs_extension(self, position: Position, what: str) -> NnefError:
        return NnefError(
            "V006",
            position,
            f"{what} is used in flat syntax",
            f"write `extension {OPERATORS_EXTENSION};` after the version",
        )
