"""Parser of whole documents (A.1 and A.2) and of the standard operations' declarations."""

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.expressions import OPERATORS_EXTENSION, ExpressionParser
from tosaic.compiler.importers.nnef.syntax import (
    ArrayExpression,
    Assignment,
    Document,
    Expression,
    Fragment,
    GraphDefinition,
    Identifier,
    Literal,
    Parameter,
    TupleExpression,
)
from tosaic.compiler.importers.nnef.token_stream import TokenStream
from tosaic.compiler.importers.nnef.type_system import (
    DATA_TYPES,
    GENERIC,
    ArrayType,
    PrimitiveType,
    TensorType,
    TupleType,
    Type,
)

FRAGMENTS_EXTENSION = "KHR_enable_fragment_definitions"
EXTENSIONS = frozenset((FRAGMENTS_EXTENSION, OPERATORS_EXTENSION))


def parse_document(text: str, file: str = "graph.nnef") -> Document:
    """The syntax tree of a `graph.nnef`. Raises NnefError with the place of the first error."""
    return _Parser(TokenStream(text, file)).document()


def parse_declarations(text: str, file: str) -> tuple[Fragment, ...]:
    """Fragments alone, where `;` in place of a body declares a primitive operation."""
    parser = _Parser(TokenStream(text, file))
    parser.expressions.extended = True
    fragments = []
    while parser.stream.token.kind != "end":
        fragments.append(parser.fragment(primitives=True))
    return tuple(fragments)


class _Parser:
    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.expressions = ExpressionParser(stream, extended=False)

    def document(self) -> Document:
        version = self._version()
        extensions: list[str] = []
        while self.stream.sees("extension"):
            extensions += self._extension()
        self.expressions.extended = OPERATORS_EXTENSION in extensions
        fragments: list[Fragment] = []
        while self.stream.sees("fragment"):
            if FRAGMENTS_EXTENSION not in extensions:
                raise NnefError(
                    "V005",
                    self.stream.position,
                    "a fragment is defined",
                    f"write `extension {FRAGMENTS_EXTENSION};` after the version",
                )
            fragments.append(self.fragment(primitives=False))
        if not self.stream.sees("graph"):
            raise self.stream.unexpected("a graph definition", "V003")
        graph = self._graph()
        if self.stream.token.kind != "end":
            raise self.stream.unexpected("the end of the document after its graph")
        return Document(Position(graph.position.file), version, tuple(extensions), tuple(fragments), graph)

    def _version(self) -> str:
        if not self.stream.accept("version"):
            raise self.stream.unexpected("`version 1.0;`", "V001")
        number = self.stream.next()
        if number.kind != "number" or number.text != "1.0":
            raise NnefError(
                "V002",
                number.position,
                f"the version is {number.text[:40]}",
                "this reader knows `version 1.0;`",
            )
        self.stream.take(";", "after the version")
        return number.text

    def _extension(self) -> list[str]:
        self.stream.take("extension", "")
        names: list[str] = []
        while not names or self.stream.token.kind == "identifier":
            token = self.stream.identifier("the name of an extension")
            if token.text not in EXTENSIONS:
                raise NnefError(
                    "V008",
                    token.position,
                    f"the extension {token.text} is unknown",
                    f"known: {sorted(EXTENSIONS)}",
                )
            names.append(token.text)
        self.stream.take(";", "after extensions, which spaces separate")
        return names

    def _graph(self) -> GraphDefinition:
        position = self.stream.take("graph", "").position
        name = self.stream.identifier("the name of the graph").text
        parameters = self._identifier_list("graph parameters")
        self.stream.take("->", "after the parameters")
        results = self._identifier_list("graph results")
        return GraphDefinition(position, name, parameters, results, self._body())

    def _identifier_list(self, what: str) -> tuple[Identifier, ...]:
        self.stream.take("(", f"before {what}")
        names: list[Identifier] = []
        while not names or self.stream.accept(","):
            token = self.stream.identifier(f"a name among {what}")
            names.append(Identifier(token.position, token.text))
        self.stream.take(")", f"after {what}")
        return tuple(names)

    def fragment(self, primitives: bool) -> Fragment:
        position = self.stream.take("fragment", "before a declaration").position
        name = self.stream.identifier("the name of a fragment").text
        generic, default = self.stream.accept("<"), None
        if generic:
            self.stream.take(GENERIC, "in a generic declaration")
            if self.stream.accept("="):
                chosen = self.stream.next()
                default = chosen.text
                if default not in DATA_TYPES:
                    raise NnefError(
                        "generic",
                        chosen.position,
                        f"{default[:40]} is no data-type",
                        f"write one of {DATA_TYPES}",
                    )
            self.stream.take(">", "after a generic declaration")
        parameters = self._parameters("parameter", defaults=True)
        self.stream.take("->", "after the parameters")
        results = self._parameters("result", defaults=False)
        body = None if primitives and self.stream.accept(";") else self._body()
        return Fragment(position, name, generic, default, parameters, results, body)

    def _parameters(self, what: str, defaults: bool) -> tuple[Parameter, ...]:
        self.stream.take("(", f"before the {what}s")
        found: list[Parameter] = []
        while not found or self.stream.accept(","):
            token = self.stream.identifier(f"the name of a {what}")
            self.stream.take(":", f"after the name of a {what}")
            of = self._type()
            default = None
            if defaults and self.stream.accept("="):
                default = self._default()
            found.append(Parameter(token.position, token.text, of, default))
        self.stream.take(")", f"after the {what}s")
        return tuple(found)

    def _type(self) -> Type:
        with self.stream.nested():
            token = self.stream.next()
            of: Type
            if token.text == "(":
                items = [self._type()]
                while self.stream.accept(","):
                    items.append(self._type())
                self.stream.take(")", "after the types of a tuple")
                if len(items) < 2:
                    raise NnefError(
                        "syntax", token.position, "a tuple type has one item", "give it two or more"
                    )
                of = TupleType(tuple(items))
            elif token.text == "tensor" and self.stream.accept("<"):
                data = None if self.stream.sees(">") else self.stream.next()
                if data is not None and data.text not in (*DATA_TYPES, GENERIC):
                    raise NnefError("syntax", data.position, f"tensors of {data.text[:40]} do not exist")
                self.stream.take(">", "after a tensor's data-type")
                of = TensorType(data.text if data else None)
            elif token.text == "tensor":
                of = TensorType(None)
            elif token.text in (*DATA_TYPES, GENERIC):
                of = PrimitiveType(token.text)
            else:
                raise NnefError(
                    "syntax", token.position, f"found {token.text[:40]}", "a type is expected here"
                )
            dimensions = 0
            while self.stream.accept("["):
                self.stream.take("]", "in an array type")
                of, dimensions = ArrayType(of), dimensions + 1
                if dimensions > 8:
                    raise NnefError("limit", token.position, "an array type has more than 8 dimensions")
            return of

    def _default(self) -> Expression:
        """A literal expression, in which `-` belongs to the number whatever the syntax."""
        with self.stream.nested():
            token = self.stream.next()
            sign = token.text == "-" and token.kind == "symbol"
            if sign:
                token = self.stream.next()
                if token.kind != "number":
                    raise NnefError("syntax", token.position, f"found {token.text[:40]} after -")
            if token.kind in ("number", "string", "logical"):
                value = token.value
                return Literal(token.position, -value if sign and not isinstance(value, str) else value)
            if token.kind != "symbol" or token.text not in "([":
                raise NnefError(
                    "syntax",
                    token.position,
                    f"found {token.text[:40]}",
                    "a default value is built from literals",
                )
            items: list[Expression] = []
            closing = "]" if token.text == "[" else ")"
            while not self.stream.accept(closing):
                if items:
                    self.stream.take(",", "between items")
                items.append(self._default())
            if closing == "]":
                return ArrayExpression(token.position, tuple(items))
            if len(items) < 2:
                raise NnefError("syntax", token.position, f"a tuple of {len(items)} items")
            return TupleExpression(token.position, tuple(items))

    def _body(self) -> tuple[Assignment, ...]:
        self.stream.take("{", "before a body")
        assignments: list[Assignment] = []
        while not assignments or not self.stream.sees("}"):
            position = self.stream.position
            target = self._targets(position)
            self.stream.take("=", "after the left side of an assignment")
            assignments.append(Assignment(position, target, self.expressions.assigned()))
            self.stream.take(";", "after an assignment")
        self.stream.next()
        return tuple(assignments)

    def _targets(self, position: Position) -> Expression:
        items = [self._target()]
        while self.stream.accept(","):
            items.append(self._target())
        return items[0] if len(items) == 1 else TupleExpression(position, tuple(items))

    def _target(self) -> Expression:
        with self.stream.nested():
            position = self.stream.position
            if self.stream.accept("["):
                items: list[Expression] = []
                while not self.stream.accept("]"):
                    if items:
                        self.stream.take(",", "between the items of an array")
                    items.append(self._target())
                return ArrayExpression(position, tuple(items))
            if self.stream.accept("("):
                items = [self._target()]
                while self.stream.accept(","):
                    items.append(self._target())
                self.stream.take(")", "after a tuple")
                if len(items) < 2:
                    raise NnefError("syntax", position, "a tuple of one item", "leave the parentheses out")
                return TupleExpression(position, tuple(items))
            token = self.stream.identifier("a name to assign to")
            return Identifier(position, token.text)
