"""Turns characters into tokens (3.1)."""

import math
import re
from typing import NamedTuple

from tosaic.compiler.importers.nnef.errors import NnefError, Position

KEYWORDS = frozenset(
    "version extension graph fragment tensor integer scalar logical string shape_of length_of range_of "
    "for in yield if else".split()
)
TEXT_LIMIT_CHARACTERS = 1 << 26
# A token takes about 250 bytes.
TOKEN_LIMIT = 1 << 21
INTEGER_LIMIT = 1 << 63

# `?` is no syntactic character of 3.1, but part of the grammar of generic types.
_TOKEN = re.compile(
    r"(?P<space>[ \t\f\r\n\v]+|\#[^\n\f]*)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<string>'(?:[^'\\\n]|\\[^\n])*'|\"(?:[^\"\\\n]|\\[^\n])*\")"
    r"|(?P<symbol>->|<=|>=|==|!=|&&|\|\||[-+*/^<>!(){}\[\]:=,;?])"
)
_ESCAPE = re.compile(r"\\(.)")
_UNPRINTABLE = re.compile(r"[^ -~]")


class Token(NamedTuple):
    """`kind` is identifier, keyword, number, string, logical, symbol or end; literals have their value."""

    kind: str
    text: str
    position: Position
    value: int | float | bool | str = ""


def decode(data: bytes, file: str) -> str:
    """The text of a file; NNEF is ASCII, and comments may hold any UTF-8."""
    _check_size(len(data), file)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NnefError(
            "characters", Position(file), f"byte {error.start} is no text", "store the file as ASCII or UTF-8"
        ) from None


def tokenize(text: str, file: str) -> list[Token]:
    """Every token of a text, closed by one of kind `end`. Raises NnefError at the first illegal character."""
    _check_size(len(text), file)
    tokens: list[Token] = []
    line, line_start, at = 1, 0, 0
    while at < len(text):
        position = Position(file, line, at - line_start + 1)
        if len(tokens) >= TOKEN_LIMIT:
            raise NnefError(
                "limit",
                position,
                f"more than {TOKEN_LIMIT} names, numbers and signs",
                "store large constants as variables",
            )
        match = _TOKEN.match(text, at)
        if match is None:
            raise _illegal(text, at, position)
        kind, found = match.lastgroup, match.group()
        if kind == "space":
            breaks = found.count("\n")
            if breaks:
                line, line_start = line + breaks, at + found.rindex("\n") + 1
        elif kind == "number":
            tokens.append(_number(text, match.end(), found, position))
        elif kind == "string":
            tokens.append(Token("string", found, position, _unescape(found, position)))
        elif kind == "name" and found in ("true", "false"):
            tokens.append(Token("logical", found, position, found == "true"))
        elif kind == "name":
            tokens.append(Token("keyword" if found in KEYWORDS else "identifier", found, position))
        else:
            tokens.append(Token("symbol", found, position))
        at = match.end()
    tokens.append(Token("end", "the end of the text", Position(file, line, len(text) - line_start + 1)))
    return tokens


def _check_size(size: int, file: str) -> None:
    if size > TEXT_LIMIT_CHARACTERS:
        raise NnefError(
            "limit",
            Position(file),
            f"{size} characters of text, at most {TEXT_LIMIT_CHARACTERS} are read",
            "store large constants as variables",
        )


def number_value(text: str) -> int | float | None:
    """An integer, or a scalar when there is a fraction or an exponent; None when it leaves 64 bits."""
    if text.isdigit():
        # 19 digits are enough for 63 bits; more may take quadratic time to convert.
        value = int(text) if len(text.lstrip("0")) <= 19 else INTEGER_LIMIT
        return value if value < INTEGER_LIMIT else None
    real = float(text)
    return real if math.isfinite(real) else None


def _number(text: str, end: int, found: str, position: Position) -> Token:
    if end < len(text) and (text[end].isalnum() or text[end] == "_"):
        rest = re.compile(r"\w*").match(text, end)
        name = found + (rest.group() if rest else "")
        raise NnefError(
            "V009", position, f"{name!r} is neither number nor name", "start names with a letter or _"
        )
    if end < len(text) and text[end] == ".":
        raise NnefError("characters", position, f"{found + '.'!r} has no digits after the point")
    value = number_value(found)
    if value is None:
        raise NnefError("characters", position, f"the number {found[:40]} does not fit in 64 bits")
    return Token("number", found, position, value)


def _unescape(found: str, position: Position) -> str:
    body = found[1:-1]
    bad = _UNPRINTABLE.search(body)
    if bad:
        raise NnefError(
            "characters", position, f"a string has the character {bad.group()!r}", "use printable ASCII"
        )
    for escape in _ESCAPE.finditer(body):
        if escape.group(1) not in "'\"\\":
            raise NnefError(
                "characters",
                position,
                f"a string has the escape {escape.group()}",
                "write \\\\ for a backslash",
            )
    return _ESCAPE.sub(r"\1", body)


def _illegal(text: str, at: int, position: Position) -> NnefError:
    if text[at] in "'\"":
        return NnefError(
            "V011",
            position,
            f"the string that starts with {text[at]} has no end",
            "close it with the same quote",
        )
    return NnefError("characters", position, f"the character {text[at]!r} has no meaning here")
