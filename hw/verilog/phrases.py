"""Names for what Amaranth numbers: after the operator and the operands, or after what it is used for."""

import collections
from collections.abc import Mapping

from .expressions import Concatenation, Expression, MemoryWord, VerilogOperation, slices
from .module import Assign, Branch, Module, Process, Set, Step, VerilogSelect
from .rtlil import Constant, RtlilSlice
from .words import plain

LONGEST = 36
"""Characters of a name that is made of an expression; what is longer is named after its use."""
_BINARY = {
    "|": "or",
    "^": "xor",
    "&": "and",
    "==": "is",
    "!=": "is_not",
    "<": "below",
    "<=": "at_most",
    ">": "above",
    ">=": "at_least",
    "<<": "up_by",
    ">>": "down_by",
    ">>>": "down_by",
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "over",
    "%": "modulo",
}
_UNARY = {"~": "not", "!": "not", "|": "any", "&": "all", "^": "parity", "-": "minus"}
_ROLES = {"": "{}", "term": "{}_term", "next": "next_{}", "when": "{}_when", "case": "{}_case"}
"""Names by what a signal is to the one that is made of it."""


class Phrases:
    """Names of one module's signals that have none. `names`: those that are given already; `driven`: words for what
    instances drive."""

    def __init__(
        self, module: Module, nameless: set[str], names: Mapping[str, str], driven: Mapping[str, str]
    ) -> None:
        self.module, self.nameless, self.names, self.driven = module, nameless, names, driven
        self.definitions: dict[str, Expression] = {}
        self.uses: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
        """What is made of a signal, and what it is to that (_ROLES); for a port of an instance a whole name and ""."""
        for statement in module.statements:
            if isinstance(statement, Assign):
                self._read_assign(statement)
            elif isinstance(statement, Process):
                self._read_steps(statement.steps, [])
        for instance in module.instances:
            for port, value in instance.connections.items():
                if port not in instance.outputs and "$" not in port:
                    for use in slices(value):
                        self.uses[use.wire].append((f"{plain(instance.name)}_{port}", ""))
        self._made: dict[str, str | None] = {}

    def _read_assign(self, statement: Assign) -> None:
        for target in slices(statement.target):
            if target.bits == self.module.signals[target.wire].bits:
                self.definitions[target.wire] = statement.value
            for use in slices(statement.value):
                self.uses[use.wire].append((target.wire, "term"))

    def _read_steps(self, steps: list[Step], waiting: list[tuple[str, str]]) -> None:
        """`waiting`: conditions around the steps, for what is assigned first under them."""
        for step in steps:
            match step:
                case Set():
                    target = (
                        step.target.memory
                        if isinstance(step.target, MemoryWord)
                        else next(slices(step.target)).wire
                    )
                    for name, role in [*waiting, *((use.wire, "next") for use in slices(step.value))]:
                        self.uses[name].append((target, role))
                    if isinstance(step.value, MemoryWord):
                        self.definitions.setdefault(target, step.value)
                    waiting.clear()
                case Branch():
                    for condition, inner in step.arms:
                        waiting += (
                            [(use.wire, "when") for use in slices(condition)] if condition is not None else []
                        )
                        self._read_steps(inner, waiting)
                case VerilogSelect():
                    waiting += [(use.wire, "case") for use in slices(step.selector)]
                    for _, inner in step.arms:
                        self._read_steps(inner, waiting)

    def name_of(self, signal: str) -> str | None:
        """A name for a nameless signal, or None; it may be taken."""
        return self.driven.get(signal) or self.by_expression(signal) or self._by_use(signal)

    def of(self, value: Expression) -> str | None:
        """Words for an expression, where all of its operands have names and it is short."""
        name = self._phrase(value)
        return name if name and len(name) <= LONGEST and not name[0].isdigit() else None

    def by_expression(self, signal: str) -> str | None:
        """A name by operators and operands, where all of these have names."""
        if signal not in self._made:
            self._made[signal] = None  # what a signal says of itself says nothing
            expression = self.definitions.get(signal)
            self._made[signal] = None if expression is None else self.of(expression)
        return self._made[signal]

    def _by_use(self, signal: str) -> str | None:
        """A name by the nearest named signal that depends on it."""
        seen, waiting = {signal}, collections.deque([(signal, 1)])
        while waiting:
            current, steps = waiting.popleft()
            for target, role in self.uses[current]:
                name = target if not role else None if target in self.nameless else self._operand(target)
                if name and len(name) <= LONGEST:
                    return _ROLES[role if steps == 1 else "term"].format(name)
                if name is None and target not in seen:
                    seen.add(target)
                    waiting.append((target, steps + 1))
        return None

    def _operand(self, name: str) -> str | None:
        if name in self.names:
            return self.names[name]
        if name in self.nameless:
            return self.driven.get(name) or self.by_expression(name)
        return plain(name)

    def _phrase(self, value: Expression) -> str | None:
        match value:
            case RtlilSlice():
                return self._slice(value)
            case Constant():
                return str(int(value.digits, 2)) if set(value.digits) <= {"0", "1"} else None
            case MemoryWord():
                address = self._phrase(value.address)
                return address and f"{plain(value.memory)}_at_{address}"
            case Concatenation():
                # Constants and copies of a sign say nothing.
                parts = dict.fromkeys(part for part in value.parts if not isinstance(part, Constant))
                return self._joined("_", *parts)
        return self._operation(value)

    def _slice(self, value: RtlilSlice) -> str | None:
        name = self._operand(value.wire)
        if name is None or value.bits == self.module.signals[value.wire].bits:
            return name
        high = value.low + value.bits - 1
        return f"{name}_{high}" if value.bits == 1 else f"{name}_{high}_{value.low}"

    def _operation(self, value: VerilogOperation) -> str | None:
        operator, operands = value.operator, value.operands
        if operator == "$signed":
            return self._phrase(operands[0])
        if operator == "?:":
            condition, one, other = map(self._phrase, operands)
            if not condition or not one or not other:
                return None
            if other == "0":
                return f"{one}_if_{condition}"
            return f"{other}_unless_{condition}" if one == "0" else f"{one}_or_{other}_by_{condition}"
        if len(operands) == 1:
            inner = self._phrase(operands[0])
            return inner and f"{_UNARY[operator]}_{inner}"
        return self._joined(f"_{_BINARY[operator]}_", *operands)

    def _joined(self, between: str, *operands: Expression) -> str | None:
        words = [name for operand in operands if (name := self._phrase(operand))]
        return between.join(words) if len(words) == len(operands) else None
