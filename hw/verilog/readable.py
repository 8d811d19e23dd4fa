"""What Amaranth writes out bit by bit, put together again: every step changes a module's text, never what it does."""

import re
from collections.abc import Callable

from .module import Module
from .tokens import NAME, closed, plain, spell, substitute

_ASSIGN = re.compile(rf"  assign ({NAME})\s*= (.*);")
_SLICE = re.compile(rf"({NAME})\s*\[(\d+)(?::(\d+))?\]\s*")
_FLAT = re.compile(r"\{([^{}]*)\}")
LEAST_RUN = 3
"""Equal parts of a concatenation that are written as `{3{part}}`."""


def make_readable(module: Module) -> None:
    """All steps."""
    write_slices(module)
    gather_concatenations(module)
    share_values(module)
    gather_concatenations(module)
    share_values(module)


def is_nameless(name: str) -> bool:
    """Whether an identifier is one of Amaranth's numbers."""
    return re.fullmatch(r"\$\d+", name) is not None


def share_values(module: Module) -> None:
    """Nameless signals of one expression and one width are one; where a signal with a name has it, that one."""
    while True:
        first: dict[tuple[str, int], str] = {}
        found = []
        for index, statement in enumerate(module.statements):
            match = _ASSIGN.fullmatch(statement)
            if match and (signal := module.signals.get(plain(match[1]))):
                key = (match[2].strip(), signal.bits)
                found.append((index, signal.name, key))
                if not is_nameless(signal.name):
                    first.setdefault(key, signal.name)
        same = {}
        for index, name, key in found:
            kept = first.setdefault(key, name)
            if kept != name and is_nameless(name):
                same[name] = kept
                module.statements[index] = ""
                del module.signals[name]
        if not same:
            return
        _substitute(module, same)


def write_slices(module: Module) -> None:
    """A nameless slice of a signal is written wherever it is used."""
    slices: dict[str, tuple[str, int, int]] = {}
    for index, statement in enumerate(module.statements):
        match = _ASSIGN.fullmatch(statement)
        part = match and _SLICE.fullmatch(match[2])
        if not match or not part or not is_nameless(plain(match[1])):
            continue
        name, whole = plain(match[1]), module.signals[plain(part[1])]
        low = int(part[3] or part[2])
        if whole.depth or int(part[2]) - low + 1 != module.signals[name].bits or _is_indexed(module, name):
            continue
        slices[name] = (whole.name, int(part[2]), low)
        module.statements[index] = ""
    for name in slices:
        whole_name, high, low = slices[name]
        while whole_name in slices:
            whole_name, _, offset = slices[whole_name]
            high, low = high + offset, low + offset
        slices[name] = (whole_name, high, low)
        del module.signals[name]
    if slices:
        _rewrite(module, lambda text: _write_slices(text, slices))


def _is_indexed(module: Module, name: str) -> bool:
    """Whether a signal chooses one of a signal's bits: such an index has no slice to be written into."""
    use = re.compile(rf"\\{re.escape(name)} \[(?!\d+(?::\d+)?\])")
    texts = [*module.statements, *(text for i in module.instances for text in i.connections.values())]
    return any(use.search(text) for text in texts)


def _write_slices(text: str, slices: dict[str, tuple[str, int, int]]) -> str:
    def one(match: re.Match) -> str:
        name = plain(match[1])
        if name not in slices:
            return match[0]
        whole, high, low = slices[name]
        if match[2] is not None:
            high, low = low + int(match[2]), low + int(match[3] or match[2])
        return _slice_text(whole, high, low)

    return re.sub(r"(\\\$\d+ )(?:\[(\d+)(?::(\d+))?\])?", one, text)


def _slice_text(name: str, high: int, low: int) -> str:
    return f"{spell(name)}[{high}]" if high == low else f"{spell(name)}[{high}:{low}]"


def gather_concatenations(module: Module) -> None:
    """`{ a[3], a[2], b, b, b }` becomes `{ a[3:2], {3{b}} }`."""
    _rewrite(module, lambda text: _FLAT.sub(lambda match: _gathered(module, match), text))


def _gathered(module: Module, match: re.Match) -> str:
    """A concatenation without one inside, with its neighbours put together."""
    before = match.string[: match.start()]
    if re.search(r"\d$", before):  # the braces of a replication
        return match[0]
    parts: list[tuple[str, int | None]] = []
    for item in re.split(r",(?![^()]*\))", match[1]):
        part = _SLICE.fullmatch(item.strip())
        if part is None:
            parts.append((item.strip(), None))
            continue
        low = int(part[3] or part[2])
        parts += [(plain(part[1]), bit) for bit in range(int(part[2]), low - 1, -1)]
    written = []
    while parts:
        length = _run(parts)
        if length >= LEAST_RUN:
            name, bit = parts[0]
            written.append(f"{{{length}{{{closed(name) if bit is None else _slice_text(name, bit, bit)}}}}}")
        else:
            length = 1
            name, bit = parts[0]
            if bit is None:
                written.append(closed(name))
            else:
                while (
                    parts[length : length + 1] == [(name, bit - length)] and _run(parts[length:]) < LEAST_RUN
                ):
                    length += 1
                whole = length == module.signals[name].bits
                written.append(spell(name) if whole else _slice_text(name, bit, bit - length + 1))
        parts = parts[length:]
    if len(written) > 1:
        return f"{{ {', '.join(written)} }}"
    return written[0]


def _run(parts: list[tuple[str, int | None]]) -> int:
    """How many of the first part follow each other."""
    length = 1
    while length < len(parts) and parts[length] == parts[0]:
        length += 1
    return length


def _substitute(module: Module, names: dict[str, str]) -> None:
    _rewrite(module, lambda text: substitute(text, lambda name: spell(names.get(name, name))))


def _rewrite(module: Module, change: Callable[[str], str]) -> None:
    """Every statement and connection by a function of texts; statements without a text go."""
    module.statements = [change(statement) for statement in module.statements if statement]
    for instance in module.instances:
        instance.connections = {port: change(value) for port, value in instance.connections.items()}
