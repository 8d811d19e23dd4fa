"""Names of a model as C spells them."""

import re
from collections.abc import Iterable, Sequence


def c_identifier(name: str) -> str:
    """A name with letters, digits and underscores only, which does not begin with a digit."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "unnamed"
    return f"_{plain}" if plain[0].isdigit() else plain


def c_constants(prefix: str, names: Sequence[str], suffixes: Sequence[str]) -> list[str]:
    """A constant for each name, in capitals behind `prefix`; where it, or it with a suffix, would be one that there is
    already, it is numbered."""
    taken: set[str] = set()
    found = []
    for name in names:
        plain = f"{prefix}_{c_identifier(name).lstrip('_').upper()}"
        number, chosen = 1, plain
        while taken & {chosen + suffix for suffix in ("", *suffixes)}:
            number += 1
            chosen = f"{plain}_{number}"
        taken |= {chosen + suffix for suffix in ("", *suffixes)}
        found.append(chosen)
    return found


def c_string(text: str) -> str:
    """A string literal of the text in UTF-8."""
    return '"' + "".join(map(_character, text.encode())) + '"'


def _character(byte: int) -> str:
    # Three digits, so that a digit behind it is one of its own; `?` might begin a trigraph.
    plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if plain else f"\\{byte:03o}"


def c_initializer(values: Iterable[int], columns: int, indent: str = "    ") -> str:
    """Numbers between braces, in lines of `columns` numbers."""
    texts = [f"{value}," for value in values]
    lines = (texts[at : at + columns] for at in range(0, len(texts), columns))
    return "{\n" + "".join(f"{indent}{''.join(line)}\n" for line in lines) + "}"
