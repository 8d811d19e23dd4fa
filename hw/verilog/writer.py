"""The text of a module."""

import re

from .module import Module, Signal
from .naming import AT_START
from .tokens import spell

_FIRST_PORTS = ("clk", "rst")
LINE_LENGTH = 110
"""Characters, of broken lines and of those that take another expression in."""


def module_text(module: Module) -> str:
    """ANSI header, declarations, instances, statements; without the file's comment."""
    ports = sorted(
        module.ports,
        key=lambda p: (
            p.name not in _FIRST_PORTS,
            _FIRST_PORTS.index(p.name) if p.name in _FIRST_PORTS else 0,
        ),
    )
    lines = [f"module {module.name} ("]
    lines += [
        f"  {port.direction} {_declared(port, port.is_reg)}{',' if port is not ports[-1] else ''}"
        for port in ports
    ]
    lines.append(");")
    for signal in module.signals.values():
        if not signal.direction:
            about = "  // makes every always @* run at time 0" if signal.name == AT_START else ""
            lines += [*signal.attributes, f"  {_declared(signal, signal.is_reg)};{about}"]
    for instance in module.instances:
        lines += ["", *instance.attributes]
        if instance.parameters:
            lines += [f"  {instance.module} #(", *instance.parameters, f"  ) {instance.name} ("]
        else:
            lines.append(f"  {instance.module} {instance.name} (")
        connections = list(instance.connections.items())
        lines += [
            f"    .{spell(port)}({value.strip()}){',' if index < len(connections) - 1 else ''}"
            for index, (port, value) in enumerate(connections)
        ]
        lines.append("  );")
    if starts := [signal for signal in module.signals.values() if _has_start(signal)]:
        lines += ["", "  initial begin"]
        lines += [f"    {spell(signal.name).strip()} = {signal.initial};" for signal in starts]
        lines.append("  end")
    if module.statements:
        lines += ["", *(_spaced(statement) for statement in module.statements)]
    lines.append("endmodule")
    return "\n".join(lines) + "\n"


def broken(text: str) -> str:
    """The text with its long lines broken at spaces, what follows six columns deeper; comments and strings stay."""
    return "".join(f"{_broken_line(line)}\n" for line in text.splitlines())


def _broken_line(line: str) -> str:
    lines, rest = [], line
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    while len(rest) > LINE_LENGTH and "//" not in rest and '"' not in rest:
        blank = len(rest) - len(rest.lstrip())
        place = rest.rfind(" ", blank, LINE_LENGTH + 1)
        if place <= blank:
            place = rest.find(" ", LINE_LENGTH)
        if place < 0:
            break
        lines.append(rest[:place])
        rest = indent + rest[place + 1 :]
    return "\n".join([*lines, rest])


def _has_start(signal: Signal) -> bool:
    """Whether it is a register that begins at its reset value, for FPGAs that start without a reset.

    What no process assigns keeps its value in the declaration: `initial` would be an assignment of its own.
    """
    return bool(signal.initial) and signal.name != AT_START


def _declared(signal: Signal, is_reg: bool) -> str:
    bits = f"[{signal.bits - 1}:0] " if signal.bits != 1 else ""
    depth = f" [0:{signal.depth - 1}]" if signal.depth else ""
    initial = f" = {signal.initial}" if signal.initial and not _has_start(signal) else ""
    return f"{'reg' if is_reg else 'wire'} {bits}{spell(signal.name).strip()}{depth}{initial}"


def _spaced(statement: str) -> str:
    """Without the spaces that escaped names need, and with those that they took."""
    return re.sub(r"(?<=[\w\]])<= ", " <= ", re.sub(r"(?<=\S) +(?=[;\[),])", "", statement))
