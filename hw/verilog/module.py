"""A module of Yosys' Verilog, taken apart into declarations, statements and instances."""

import dataclasses
import re
from collections.abc import Mapping

from .tokens import plain, spell, substitute

_NAME = r"(\\\S+ |[A-Za-z_][A-Za-z0-9_$]*)"
_HEADER = re.compile(rf"module {_NAME}\s*\(", re.DOTALL)
_DECLARATION = re.compile(
    rf"  (input|output|inout|wire|reg)( signed)? (?:\[(-?\d+):(\d+)\] )?{_NAME}\s*(?:\[(\d+):(\d+)\])?(?:= (.+))?;$"
)
_INSTANCE = re.compile(rf"  {_NAME}\s+{_NAME}\s*\($")
_PARAMETRIC = re.compile(rf"  {_NAME}\s+#\($")
_PARAMETRIC_NAME = re.compile(rf"  \) {_NAME}\s*\($")
_CONNECTION = re.compile(rf"    \.{_NAME}\s*\((.*)\),?$")


@dataclasses.dataclass
class Signal:
    """A declared name. `direction` is "input", "output", "inout" or "" for one inside; `depth` is that of a memory."""

    name: str
    bits: int
    signed: bool = False
    is_reg: bool = False
    direction: str = ""
    initial: str = ""
    depth: int = 0
    attributes: list[str] = dataclasses.field(default_factory=list)
    """Lines such as `(* no_rw_check *)`."""
    better_name: str = ""
    """What the Python source calls it, when `name` is only Amaranth's."""


@dataclasses.dataclass
class Instance:
    module: str
    name: str
    connections: dict[str, str]
    """Port to expression."""
    parameters: list[str] = dataclasses.field(default_factory=list)
    attributes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Module:
    name: str
    signals: dict[str, Signal] = dataclasses.field(default_factory=dict)
    instances: list[Instance] = dataclasses.field(default_factory=list)
    statements: list[str] = dataclasses.field(default_factory=list)
    """Assignments, blocks and their attributes: one text each, lines indented by two spaces at least."""

    widths: dict[str, int] = dataclasses.field(default_factory=dict)
    """Bits of expressions in parentheses."""
    results: set[str] = dataclasses.field(default_factory=set)
    """Names of what has more than a bit and none in Python: results on the way, and parts of records."""

    @property
    def ports(self) -> list[Signal]:
        return [signal for signal in self.signals.values() if signal.direction]

    def rename(self, names: Mapping[str, str]) -> None:
        """Signals, wherever statements and instances use them; not where they are declared."""

        def replace(name: str) -> str:
            return spell(names.get(name, name))

        self.statements = [substitute(statement, replace) for statement in self.statements]
        for instance in self.instances:
            instance.connections = {
                port: substitute(value, replace) for port, value in instance.connections.items()
            }


def parse_modules(text: str) -> list[Module]:
    """The modules of a text that Yosys wrote, in its order."""
    parts = re.split(r"^(?=module )", text, flags=re.MULTILINE)[1:]
    return [_parse(part[: part.index("\nendmodule")]) for part in parts]


def _parse(text: str) -> Module:
    header = _HEADER.match(text)
    if header is None:
        raise ValueError(f"this is no module header: {text[:80]!r}")
    module = Module(plain(header[1]))
    lines = text[text.index(");\n") + 3 :].split("\n")
    position = 0
    attributes: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if re.fullmatch(r"  \(\* .* \*\)", line):
            # What Amaranth tells waveform viewers is of no use to a reader or to synthesis.
            if not re.match(r"  \(\* (enum_|init |generator|top |src )", line):
                attributes.append(line)
        elif declaration := _DECLARATION.match(line):
            _declare(module, declaration)
            module.signals[plain(declaration[5])].attributes += attributes
            attributes = []
        elif instance := _INSTANCE.match(line) or _PARAMETRIC.match(line):
            parameters = []
            name = instance[2] if instance.re is _INSTANCE else ""
            while not name:
                if match := _PARAMETRIC_NAME.match(lines[position]):
                    name = match[1]
                else:
                    parameters.append(lines[position])
                position += 1
            connections = {}
            while lines[position] != "  );":
                connection = _CONNECTION.match(lines[position])
                if connection is None:
                    raise ValueError(f"{module.name}: this is no connection: {lines[position]!r}")
                connections[plain(connection[1])] = connection[2]
                position += 1
            position += 1
            module.instances.append(
                Instance(plain(instance[1]), plain(name), connections, parameters, attributes)
            )
            attributes = []
        else:
            block = [line]
            # A block ends at the next line that is indented as far as its first one and does not continue it.
            if not line.endswith(";") or line.lstrip().startswith(("always", "initial")):
                while not (lines[position].startswith("  ") and _ends(block, lines[position])):
                    block.append(lines[position])
                    position += 1
                block.append(lines[position])
                position += 1
            # Every case that is full is so by its text as well.
            block = [line for line in block if "(* full_case" not in line]
            module.statements.append("\n".join([*attributes, *block]))
            attributes = []
    return module


def _ends(block: list[str], line: str) -> bool:
    if block[0].endswith("begin"):
        return line == "  end"
    return line.endswith(";")


def _declare(module: Module, match: re.Match) -> None:
    kind, signed, high, low, name, first, last, initial = match.groups()
    name = plain(name)
    bits = int(high) - int(low) + 1 if high is not None else 1
    signal = module.signals.setdefault(name, Signal(name, bits, bool(signed)))
    if kind in ("input", "output", "inout"):
        signal.direction = kind
    elif kind == "reg":
        signal.is_reg = True
        signal.initial = initial or ""
    if first is not None:
        signal.depth = abs(int(first) - int(last)) + 1
