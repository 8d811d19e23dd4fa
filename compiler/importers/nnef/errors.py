"""What is wrong with an NNEF model, where, by which rule, and what to do about it."""

from typing import NamedTuple

from tosaic.compiler.importers.nnef.rules import RULES
from tosaic.errors import ModelError


class Position(NamedTuple):
    """A place in a text; line and column count from 1, and 0 says that the whole file is meant."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class NnefError(ModelError):
    """An illegal NNEF document, tensor file or container.

    `rule` is a key of `rules.RULES`; `position` is where; the message has both, what was found and the way out.
    """

    def __init__(self, rule: str, position: Position, found: str, way_out: str = "") -> None:
        clause, title = RULES[rule]
        advice = f"; {way_out}" if way_out else ""
        super().__init__(f"{position}: {found}{advice} [{rule}: {title}, NNEF {clause}]")
        self.rule = rule
        self.position = position
        self.found = found
        self.way_out = way_out
