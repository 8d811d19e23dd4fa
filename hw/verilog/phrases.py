"""Names for what Amaranth numbers: after the operator and the operands, or after what it is used for."""

import collections
import re
from collections.abc import Callable, Mapping

from .module import Module
from .tokens import NAME, identifiers, plain

LONGEST = 36
"""Characters of a name that is made of an expression; what is longer is named after its use."""
_TOKEN = re.compile(
    rf"\s*(?:(?P<number>\d+'s?[bodh][0-9a-fxz?_]+|\d+)|(?P<name>{NAME})|(?P<signed>\$(?:un)?signed)"
    r"|(?P<operator>>>>|<<<|===|!==|[<>=!]=|<<|>>|&&|\|\||[-+*/%&|^~!<>?:(){}\[\],]))"
)
_BINARY = (
    {"||": "or"},
    {"&&": "and"},
    {"|": "or"},
    {"^": "xor"},
    {"&": "and"},
    {"==": "is", "!=": "is_not"},
    {"<": "below", "<=": "at_most", ">": "above", ">=": "at_least"},
    {"<<": "up_by", ">>": "down_by", ">>>": "down_by"},
    {"+": "plus", "-": "minus"},
    {"*": "times"},
)
"""Words of operators, those that bind least first."""
_UNARY = {"~": "not", "!": "not", "|": "any", "&": "all", "^": "parity", "-": "minus"}
_WORDS = {"": "{}", "term": "{}_term", "next": "next_{}", "when": "{}_when", "case": "{}_case"}
"""Of what a signal is to the one that is made of it."""
_DEFINITION = re.compile(rf"  assign ({NAME})\s*= (.*);")
_TARGET = re.compile(rf"\s*({NAME})\s*(?:\[[^=]*\])?\s*(?:<=|=) (.*)")


class Phrases:
    """Names of one module's signals that have none. `names`: those that are given already; `driven`: words for what
    instances drive."""

    def __init__(
        self, module: Module, nameless: set[str], names: Mapping[str, str], driven: Mapping[str, str]
    ):
        self.nameless, self.names, self.driven = nameless, names, driven
        self.definitions: dict[str, str] = {}
        self.uses: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
        """What is made of a signal, and what it is to that (_WORDS); for a port of an instance a whole name and ""."""
        for statement in module.statements:
            self._read(statement)
        for instance in module.instances:
            for port, value in instance.connections.items():
                for name in identifiers(value) if "$" not in port else ():
                    self.uses[name].append((f"{instance.name}_{port}", ""))
        self._made: dict[str, str | None] = {}

    def _read(self, statement: str) -> None:
        if match := _DEFINITION.fullmatch(statement):
            target = plain(match[1])
            self.definitions[target] = match[2]
            for name in identifiers(match[2]):
                self.uses[name].append((target, "term"))
            return
        waiting: list[tuple[str, str]] = []
        for line in statement.split("\n"):
            if match := _TARGET.match(line):
                target = plain(match[1])
                for name, role in [*waiting, *((name, "next") for name in identifiers(match[2]))]:
                    self.uses[name].append((target, role))
                waiting = []
            elif found := re.match(r"\s*(?:else )?(if|casez?) ", line):
                role = "when" if found[1] == "if" else "case"
                waiting += [(name, role) for name in identifiers(line)]

    def name_of(self, signal: str) -> str | None:
        """A name for a nameless signal, or None; it may be taken."""
        return self.driven.get(signal) or self._by_expression(signal) or self._by_use(signal)

    def _by_expression(self, signal: str) -> str | None:
        """By operators and operands, where all of these have names."""
        if signal not in self._made:
            self._made[signal] = None  # what a signal says of itself says nothing
            expression = self.definitions.get(signal)
            name = _Reader(expression, self._operand).phrase() if expression is not None else None
            if name and len(name) <= LONGEST and not name[0].isdigit():
                self._made[signal] = name
        return self._made[signal]

    def _by_use(self, signal: str) -> str | None:
        """By the nearest signal with a name that depends on it."""
        seen, waiting = {signal}, collections.deque([(signal, 1)])
        while waiting:
            current, steps = waiting.popleft()
            for target, role in self.uses[current]:
                word = target if not role else None if target in self.nameless else self._operand(target)
                if word and len(word) <= LONGEST:
                    return _WORDS[role if steps == 1 else "term"].format(word)
                if word is None and target not in seen:
                    seen.add(target)
                    waiting.append((target, steps + 1))
        return None

    def _operand(self, name: str) -> str | None:
        if name in self.names:
            return self.names[name]
        if name in self.nameless:
            return self.driven.get(name) or self._by_expression(name)
        return re.sub(r"\W+", "_", name).strip("_") or None


class _Reader:
    """Words of one expression. `operand` gives a signal's, or None: then there is no name for the whole."""

    def __init__(self, expression: str, operand: Callable[[str], str | None]) -> None:
        self.operand = operand
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(expression.rstrip())
        while position < end:
            match = _TOKEN.match(expression, position)
            if match is None or match.lastgroup is None:
                self.tokens = []
                return
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.tokens.append(("end", ""))

    def phrase(self) -> str | None:
        if not self.tokens:
            return None
        try:
            words = self._choice()
        except _NoName:
            return None
        return words if self.tokens[0][0] == "end" else None

    def _next(self) -> tuple[str, str]:
        return self.tokens.pop(0)

    def _take(self, text: str) -> bool:
        if self.tokens[0] == ("operator", text):
            self._next()
            return True
        return False

    def _choice(self) -> str:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        one = self._choice()
        if not self._take(":"):
            raise _NoName
        other = self._choice()
        if other == "0":
            return f"{one}_if_{condition}"
        if one == "0":
            return f"{other}_unless_{condition}"
        return f"{one}_or_{other}_by_{condition}"

    def _binary(self, level: int) -> str:
        if level == len(_BINARY):
            return self._unary()
        words = self._binary(level + 1)
        while self.tokens[0][0] == "operator" and self.tokens[0][1] in _BINARY[level]:
            operator = self._next()[1]
            words = f"{words}_{_BINARY[level][operator]}_{self._binary(level + 1)}"
        return words

    def _unary(self) -> str:
        if self.tokens[0][0] == "operator" and self.tokens[0][1] in _UNARY:
            operator = self._next()[1]
            return f"{_UNARY[operator]}_{self._unary()}"
        return self._atom()

    def _atom(self) -> str:
        kind, text = self._next()
        if kind == "number":
            return _number(text)
        if kind == "signed":
            return self._atom()
        if kind == "name":
            word = self.operand(plain(text))
            if not word:
                raise _NoName
            return f"{word}{self._index()}"
        if text == "(":
            words = self._choice()
            if not self._take(")"):
                raise _NoName
            return words
        if text == "{":
            return self._concatenation()
        raise _NoName

    def _index(self) -> str:
        if not self._take("["):
            return ""
        words = self._choice()
        if self._take(":"):
            words = f"{words}_{self._choice()}"
        elif not words.isdigit():
            words = f"at_{words}"
        if not self._take("]"):
            raise _NoName
        return f"_{words}"

    def _concatenation(self) -> str:
        """Parts by their words; constants and copies of a sign say nothing."""
        parts = [self._choice()]
        if self._take("{"):  # a replication
            words = self._concatenation()
            if not self._take("}"):
                raise _NoName
            return words
        while self._take(","):
            parts.append(self._choice())
        if not self._take("}"):
            raise _NoName
        return "_".join(part for part in parts if not part.isdigit()) or "0"


class _NoName(Exception):
    """An expression that is not read, or with an operand that has no name."""


def _number(text: str) -> str:
    """In decimal, without its width."""
    _, mark, digits = text.partition("'")
    if not mark:
        return text
    kind, digits = digits.lstrip("s")[0], digits.lstrip("s")[1:].replace("_", "")
    try:
        return str(int(digits, {"b": 2, "o": 8, "d": 10, "h": 16}[kind]))
    except ValueError:
        raise _NoName from None
