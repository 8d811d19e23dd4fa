"""The text of a module."""

from collections.abc import Iterator, Mapping

from .expressions import MemoryWord, number, slices
from .module import Assign, Branch, Fill, Instance, Module, Process, Set, Signal, Step, VerilogSelect, sets
from .rtlil import Constant
from .words import free

LINE_LENGTH = 110
"""Characters of a line that is not broken."""
_FIRST_PORTS = ("clk", "rst")
_LEAST_LOOP = 4
"""Equal words of a memory that a loop fills."""


def module_text(module: Module) -> str:
    """ANSI header, declarations, instances, statements; without the comment above it. Long lines are broken."""
    return "".join(f"{broken(line)}\n" for line in _Writer(module).lines())


def broken(line: str) -> str:
    """A line broken at spaces where it is long, what follows six columns deeper; comments and strings stay."""
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


class _Writer:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.text = module.speller().text
        processes = [statement for statement in module.statements if isinstance(statement, Process)]
        driven = [step.target for process in processes for step in sets(process.steps)]
        self.registers = {
            use.wire for target in driven if not isinstance(target, MemoryWord) for use in slices(target)
        }
        self.at_start = ""
        if any(not process.edges for process in processes):
            self.at_start = free("at_start", module.signals.keys() | {i.name for i in module.instances})

    def lines(self) -> Iterator[str]:
        yield f"module {self.module.name} ("
        ports = sorted(self.module.ports, key=lambda p: (*_FIRST_PORTS, p.name).index(p.name))
        for port in ports:
            comma = "," if port is not ports[-1] else ""
            yield f"  {_attributes(port.attributes)}{port.direction} {self._declared(port)}{comma}"
        yield ");"
        if self.at_start:
            yield f"  reg {self.at_start} = 0;  // makes every always @* run at time 0"
        for signal in self.module.signals.values():
            if not signal.direction:
                yield f"  {_attributes(signal.attributes)}{self._declared(signal)};"
        for instance in self.module.instances:
            yield ""
            yield from self._instance(instance)
        yield from self._starts()
        if self.module.statements:
            yield ""
        for statement in self.module.statements:
            if isinstance(statement, Assign):
                yield f"  assign {self.text(statement.target)} = {self.text(statement.value)};"
            elif isinstance(statement, Fill):
                yield from self._fill(statement)
            else:
                yield from self._process(statement)
        yield "endmodule"

    def _declared(self, signal: Signal) -> str:
        kind = "reg" if signal.name in self.registers or signal.depth else "wire"
        bits = f"[{signal.bits - 1}:0] " if signal.bits != 1 else ""
        return f"{kind} {bits}{signal.name}" + (f" [0:{signal.depth - 1}]" if signal.depth else "")

    def _instance(self, instance: Instance) -> Iterator[str]:
        head = f"  {_attributes(instance.attributes)}{instance.module}"
        if instance.parameters:
            yield f"{head} #("
            yield from _ports({name: _value(value) for name, value in instance.parameters.items()})
            yield f"  ) {instance.name} ("
        else:
            yield f"{head} {instance.name} ("
        yield from _ports({port: self.text(value) for port, value in instance.connections.items()})
        yield "  );"

    def _starts(self) -> Iterator[str]:
        """What registers begin with, for FPGAs that start without a reset."""
        starts = [
            f"    {signal.name} = {self.text(signal.initial)};"
            for signal in self.module.signals.values()
            if signal.initial is not None and signal.name in self.registers
        ]
        if starts:
            yield from ("", "  initial begin", *starts, "  end")

    def _fill(self, fill: Fill) -> Iterator[str]:
        memory, words = self.module.signals[fill.memory], fill.words
        if len(set(words)) > 1 or len(words) < _LEAST_LOOP:
            yield "  initial begin"
            yield from (
                f"    {fill.memory}[{place}] = {self.text(word)};" for place, word in enumerate(words)
            )
            yield "  end"
            return
        # Memories that are to be the device's largest ones (iCE40's SPRAM) cannot be filled by the bitstream.
        if memory.attributes.get("ram_style") == "huge":
            return
        # A device's memories begin with zeros of their own, and Yosys unrolls such a loop word by word: minutes.
        zero = "1" not in words[0].digits
        yield from ("`ifndef SYNTHESIS",) * zero
        yield f"  initial begin : fill_{fill.memory}"
        yield "    integer word_index;"
        yield f"    for (word_index = 0; word_index < {len(words)}; word_index = word_index + 1)"
        yield f"      {fill.memory}[word_index] = {self.text(words[0])};"
        yield "  end"
        yield from ("`endif",) * zero

    def _process(self, process: Process) -> Iterator[str]:
        if process.edges:
            edges = ", ".join(f"{edge} {self.text(clock)}" for edge, clock in process.edges)
            yield f"  always @({edges}) begin"
            yield from self._steps(process.steps, "    ", "<=")
        else:
            yield "  always @* begin"
            yield f"    if ({self.at_start}) begin end"
            yield from self._steps(process.steps, "    ", "=")
        yield "  end"

    def _steps(self, steps: list[Step], margin: str, equals: str) -> Iterator[str]:
        for step in steps:
            match step:
                case Set():
                    yield f"{margin}{self.text(step.target)} {equals} {self.text(step.value)};"
                case Branch():
                    yield from self._branch(step, margin, equals)
                case VerilogSelect():
                    yield from self._select(step, margin, equals)

    def _branch(self, branch: Branch, margin: str, equals: str) -> Iterator[str]:
        before = margin
        for condition, steps in branch.arms:
            if condition is None:
                yield f"{before}begin" if before == margin else f"{before}else begin"
            else:
                head = before if before == margin else f"{before}else "
                yield f"{head}if ({self.text(condition)}) begin"
            yield from self._steps(steps, f"{margin}  ", equals)
            before = f"{margin}end "
        yield f"{margin}end"

    def _select(self, select: VerilogSelect, margin: str, equals: str) -> Iterator[str]:
        masked = any("-" in pattern for patterns, _ in select.arms for pattern in patterns)
        yield f"{margin}{'casez' if masked else 'case'} ({self.text(select.selector)})"
        for patterns, steps in select.arms:
            yield f"{margin}  {', '.join(map(_pattern, patterns)) or 'default'}: begin"
            yield from self._steps(steps, f"{margin}    ", equals)
            yield f"{margin}  end"
        if select.arms[-1][0]:
            yield f"{margin}  default: begin end"
        yield f"{margin}endcase"


def _ports(texts: Mapping[str, str]) -> list[str]:
    lines = [f"    .{name}({text})" for name, text in texts.items()]
    return [*(f"{line}," for line in lines[:-1]), *lines[-1:]]


def _pattern(pattern: str) -> str:
    if "-" in pattern:
        return f"{len(pattern)}'b{pattern.replace('-', '?')}"
    return number(pattern)


def _attributes(attributes: Mapping[str, object]) -> str:
    return "".join(f"(* {name} = {_value(value)} *) " for name, value in attributes.items())


def _value(value: object) -> str:
    """The value of an attribute or a parameter."""
    if isinstance(value, Constant):
        return f"{value.bits}'b{value.digits}"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return repr(value)
