"""A cursor over tokens that knows what was expected."""

import contextlib
from collections.abc import Iterator

from tosaic.compiler.importers.nnef.errors import NnefError, Position
from tosaic.compiler.importers.nnef.lexer import Token, tokenize

NESTING_LIMIT = 100


class TokenStream:
    """Reads tokens one by one; `take` insists, `accept` asks."""

    def __init__(self, text: str, file: str) -> None:
        self.tokens = tokenize(text, file)
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    @property
    def position(self) -> Position:
        return self.token.position

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        return self.token.kind in ("symbol", "keyword") and self.token.text in texts

    def accept(self, text: str) -> bool:
        if self.sees(text):
            self.at += 1
            return True
        return False

    def take(self, text: str, where: str) -> Token:
        if not self.sees(text):
            raise self.unexpected(f"{text!r} {where}")
        return self.next()

    def identifier(self, what: str) -> Token:
        if self.token.kind == "keyword":
            raise NnefError(
                "V010",
                self.position,
                f"the keyword {self.token.text!r} stands for {what}",
                "choose another name",
            )
        if self.token.kind != "identifier":
            raise self.unexpected(what)
        return self.next()

    def unexpected(self, wanted: str, rule: str = "syntax") -> NnefError:
        return NnefError(rule, self.position, f"found {self.token.text[:40]}", f"{wanted} is expected here")

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Guards against texts that nest without end."""
        self.depth += 1
        if self.depth > NESTING_LIMIT:
            raise NnefError(
                "limit", self.position, f"brackets nest more than {NESTING_LIMIT} deep", "use a local name"
            )
        yield
        self.depth -= 1
