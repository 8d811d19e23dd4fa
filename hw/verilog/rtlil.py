"""Yosys' RTLIL, the netlist that Amaranth writes, as objects."""

import dataclasses
import json
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class RtlilSlice:
    """Bits of a wire: `bits` of them from `low` on."""

    wire: str
    low: int
    bits: int


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """`digits`: 0, 1 or x, the highest bit first."""

    digits: str

    @property
    def bits(self) -> int:
        return len(self.digits)


Value = tuple[RtlilSlice | Constant, ...]
"""Pieces side by side, the highest bits first."""


@dataclasses.dataclass
class Wire:
    """`direction` is "input", "output", "inout" or "" for one inside. Names of Python begin with a backslash."""

    name: str
    bits: int
    direction: str
    attributes: dict[str, object]


@dataclasses.dataclass
class Memory:
    name: str
    bits: int
    depth: int
    attributes: dict[str, object]


@dataclasses.dataclass
class Cell:
    """`kind` begins with `$` for an operator and with a backslash for a module."""

    kind: str
    name: str
    attributes: dict[str, object]
    parameters: dict[str, object] = dataclasses.field(default_factory=dict)
    ports: dict[str, Value] = dataclasses.field(default_factory=dict)

    def number(self, parameter: str) -> int:
        """A parameter that is a number."""
        value = self.parameters[parameter]
        return int(value.digits, 2) if isinstance(value, Constant) else int(str(value))


@dataclasses.dataclass
class RtlilAssignment:
    target: Value
    value: Value


@dataclasses.dataclass
class RtlilCase:
    """Without patterns: every other value."""

    patterns: tuple[str, ...]
    body: list["RtlilAssignment | Switch"]


@dataclasses.dataclass
class Switch:
    selector: Value
    cases: list[RtlilCase]


@dataclasses.dataclass
class RtlilProcess:
    body: list[RtlilAssignment | Switch]


@dataclasses.dataclass
class Netlist:
    """A module. `contents` and `connections` stand in the order of the text."""

    name: str
    attributes: dict[str, object]
    wires: dict[str, Wire] = dataclasses.field(default_factory=dict)
    memories: dict[str, Memory] = dataclasses.field(default_factory=dict)
    contents: list[Cell | RtlilProcess] = dataclasses.field(default_factory=list)
    connections: list[tuple[Value, Value]] = dataclasses.field(default_factory=list)


def read_rtlil(text: str) -> list[Netlist]:
    """The modules of a text that Amaranth wrote, in its order."""
    return list(_Reader(text).modules())


class _Reader:
    """Reads a statement a line, as they stand in the text."""

    def __init__(self, text: str) -> None:
        self.lines = (words for line in text.splitlines() if (words := _words(line)))
        self.module = Netlist("", {})

    def modules(self) -> Iterator[Netlist]:
        attributes: dict[str, object] = {}
        for words in self.lines:
            if words[0] == "attribute":
                attributes[_public(words[1])] = _parameter(words[2])
            elif words[0] == "module":
                self.module = Netlist(_public(words[1]), attributes)
                self._read_module()
                yield self.module
                attributes = {}

    def _read_module(self) -> None:
        attributes: dict[str, object] = {}
        for words in self.lines:
            match words[0]:
                case "end":
                    return
                case "attribute":
                    attributes[_public(words[1])] = _parameter(words[2])
                    continue
                case "wire":
                    self._wire(words, attributes)
                case "memory":
                    name = words[-1]
                    self.module.memories[name] = Memory(name, int(words[2]), int(words[4]), attributes)
                case "cell":
                    self.module.contents.append(self._cell(Cell(words[1], words[2], attributes)))
                case "process":
                    self.module.contents.append(RtlilProcess(self._body({"end"})[0]))
                case "connect":
                    target, rest = self._piece_or_group(words[1:])
                    self.module.connections.append((target, self._value(rest)))
                case other:
                    raise ValueError(f"{self.module.name}: RTLIL has no {other!r} here")
            attributes = {}

    def _wire(self, words: list[str], attributes: dict[str, object]) -> None:
        directions = [word for word in words if word in ("input", "output", "inout")]
        bits = int(words[words.index("width") + 1]) if "width" in words else 1
        self.module.wires[words[-1]] = Wire(words[-1], bits, "".join(directions), attributes)

    def _cell(self, cell: Cell) -> Cell:
        for words in self.lines:
            match words[0]:
                case "end":
                    break
                case "parameter":
                    name, value = words[-2:]
                    cell.parameters[_public(name)] = (
                        float(_text(value)) if "real" in words else _parameter(value)
                    )
                case "connect":
                    cell.ports[_public(words[1])] = self._value(words[2:])
        return cell

    def _body(self, ends: set[str]) -> tuple[list[RtlilAssignment | Switch], list[str]]:
        """Statements up to a word of `ends`, and the line that this is on."""
        body: list[RtlilAssignment | Switch] = []
        for words in self.lines:
            if words[0] in ends:
                return body, words
            if words[0] == "assign":
                target, rest = self._piece_or_group(words[1:])
                body.append(RtlilAssignment(target, self._value(rest)))
            elif words[0] == "switch":
                body.append(self._switch(self._value(words[1:])))
        raise ValueError(f"{self.module.name}: the RTLIL of a process has no end")

    def _switch(self, selector: Value) -> Switch:
        cases: list[RtlilCase] = []
        _, words = self._body({"case", "end"})
        while words[0] == "case":
            patterns = tuple(word.rstrip(",").partition("'")[2] for word in words[1:])
            body, words = self._body({"case", "end"})
            cases.append(RtlilCase(patterns, body))
        return Switch(selector, cases)

    def _value(self, words: list[str]) -> Value:
        value, rest = self._piece_or_group(words)
        if rest:
            raise ValueError(f"{self.module.name}: what is {' '.join(rest)!r} behind a value?")
        return value

    def _piece_or_group(self, words: list[str]) -> tuple[Value, list[str]]:
        """The value that `words` begin with, and the words behind it."""
        if words[0] == "{}":
            return (), words[1:]
        if words[0] != "{":
            piece, rest = self._piece(words)
            return (piece,) if piece.bits else (), rest
        pieces: list[RtlilSlice | Constant] = []
        rest = words[1:]
        while rest[0] != "}":
            inner, rest = self._piece_or_group(rest)
            pieces += inner
        return tuple(pieces), rest[1:]

    def _piece(self, words: list[str]) -> tuple[RtlilSlice | Constant, list[str]]:
        first, rest = words[0], words[1:]
        if first[0] not in "\\$":
            return _constant(first), rest
        if not rest or not rest[0].startswith("["):
            return RtlilSlice(first, 0, self.module.wires[first].bits), rest
        high, _, low = rest[0][1:-1].partition(":")
        return RtlilSlice(first, int(low or high), int(high) - int(low or high) + 1), rest[1:]


def _words(line: str) -> list[str]:
    """Words at spaces; a string is the last one, in its quotes."""
    head, quote, string = line.partition('"')
    return [*head.split(), *([quote + string.rstrip()] if quote else [])]


def _public(name: str) -> str:
    return name.removeprefix("\\")


def _text(word: str) -> str:
    """A string's characters: its escapes are those of JSON."""
    return str(json.loads(word))


def _constant(word: str) -> Constant:
    bits, quote, digits = word.partition("'")
    if not quote:
        return Constant(f"{int(bits):032b}")
    return Constant(digits.rjust(int(bits), "x" if digits.startswith("x") else "0"))


def _parameter(word: str) -> object:
    """A text, a number or a Constant."""
    if word.startswith('"'):
        return _text(word)
    return _constant(word) if "'" in word else int(word)
