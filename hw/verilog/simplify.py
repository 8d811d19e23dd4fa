"""Fewer words for the same hardware: every step changes a module's statements, never what they do."""

import collections
import functools
from collections.abc import Container, Iterator, Mapping

from .expressions import (
    COMPARISONS,
    REDUCTIONS,
    Concatenation,
    Expression,
    MemoryWord,
    VerilogOperation,
    choice,
    cut,
    extend,
    join,
    leaves,
    operation,
    replace,
    slices,
)
from .fields import by_fields, fields_of, is_python
from .module import (
    Assign,
    Branch,
    Module,
    Process,
    Set,
    Statement,
    Step,
    changed_steps,
    reads,
    sets,
    targets,
)
from .rtlil import Constant, RtlilSlice

MOST_LEAVES = 5
"""Names and constants of an expression that is written where it is used."""
MOST_ARMS = 3
"""Conditions of a process that is written as one assignment."""


def simplify(module: Module) -> None:
    """All steps."""
    merge_aliases(module)
    merge_registers(module)
    write_choices(module)
    share_values(module)
    narrow_sums(module)
    name_fields(module)
    write_inline(module)
    _merge_into_ports(module)
    drop_unused(module)


def is_nameless(name: str) -> bool:
    """Whether an identifier is one of Amaranth's numbers."""
    return name.startswith("$")


def merge_aliases(module: Module) -> None:
    """One name for a wire: that of Python where Amaranth has a number, and that of a port where it drives one."""
    names: dict[str, str] = {}
    kept = []
    for name, value in module.aliases:
        wire = module.signals[value.wire] if isinstance(value, RtlilSlice) else None
        if (
            wire is None
            or value != wire.whole
            or wire.direction
            or is_python(wire.name)
            or wire.name in names
        ):
            kept.append((name, value))
        elif is_python(name.wire):
            names[wire.name] = name.wire
            del module.signals[name.wire]
        else:
            kept.append((name, value))
    module.aliases = kept
    module.rename(names)
    _merge_into_ports(module)
    _substitute_wires(module)


def _substitute_wires(module: Module) -> None:
    """Reads of what is another wire, parts of wires or a constant are reads of these."""
    done: set[str] = set()
    while same := {
        statement.target.wire: statement.value  # type: ignore[union-attr]
        for statement in module.statements
        if isinstance(statement, Assign)
        and _is_plain_wire(module, statement)
        and statement.target.wire not in done  # type: ignore[union-attr]
    }:
        done |= same.keys()
        module.statements = [
            statement
            for statement in module.statements
            if not (
                isinstance(statement, Assign)
                and _is_plain_wire(module, statement)
                and not module.signals[statement.target.wire].direction  # type: ignore[union-attr]
            )
        ]
        _substitute(module, same)


def _merge_into_ports(module: Module) -> None:
    """What drives an output port and has no other port's name is the port."""
    ports: dict[str, RtlilSlice] = {}
    kept: list[Statement] = []
    for statement in module.statements:
        port = _port_of(module, statement)
        if port is None or statement.value.wire in ports:  # type: ignore[union-attr]
            kept.append(statement)
        else:
            ports[statement.value.wire] = port  # type: ignore[union-attr]
    module.statements = kept

    def change(use: RtlilSlice) -> RtlilSlice:
        return RtlilSlice(ports[use.wire].wire, use.low, use.bits) if use.wire in ports else use

    if not ports:
        return
    module.change(change, change)
    module.aliases = [(name, replace(value, change)) for name, value in module.aliases]
    for wire, port in ports.items():
        signal = module.signals.pop(wire)
        module.signals[port.wire].initial = signal.initial
        module.aliases.append((signal.whole, port))
        module.names[wire] = port.wire


def _port_of(module: Module, statement: Statement) -> RtlilSlice | None:
    """The output port to which a statement gives the value of a whole wire inside."""
    if not isinstance(statement, Assign) or not isinstance(statement.target, RtlilSlice):
        return None
    if not isinstance(statement.value, RtlilSlice):
        return None
    port, wire = module.signals[statement.target.wire], module.signals[statement.value.wire]
    whole = statement.target == port.whole and statement.value == wire.whole
    inside = not wire.direction and not wire.attributes and port.direction == "output"
    return port.whole if whole and inside else None


def _is_plain_wire(module: Module, statement: Assign) -> bool:
    """Whether it gives a nameless wire or a port the value of another one, or of parts side by side."""
    target, value = statement.target, statement.value
    if not isinstance(target, RtlilSlice) or not isinstance(value, RtlilSlice | Constant | Concatenation):
        return False
    signal = module.signals[target.wire]
    is_free = signal.direction == "output" or (is_nameless(target.wire) and not signal.direction)
    return target == signal.whole and is_free and not signal.attributes


def _substitute(module: Module, values: Mapping[str, Expression]) -> None:
    """Every read of a wire by its value; values may be of such wires themselves."""
    if not values:
        return

    def change(use: RtlilSlice) -> Expression:
        while isinstance(use, RtlilSlice) and use.wire in values:
            value = values[use.wire]
            if isinstance(value, VerilogOperation | MemoryWord):
                assert use.low == 0 and use.bits == value.bits, use
                return replace(value, change)
            inner = cut(value, use.low, use.bits)
            if not isinstance(inner, RtlilSlice):
                return replace(inner, change)
            use = inner
        return use

    module.change(change)
    module.aliases = [(name, replace(value, change)) for name, value in module.aliases]
    for name in values:
        if not module.signals[name].direction:
            del module.signals[name]


def merge_registers(module: Module) -> None:
    """A register and the process that makes its next value become one clocked process."""
    uses = collections.Counter(use.wire for use in module.uses())
    registers: dict[str, tuple[int, Process, RtlilSlice]] = {}
    for index, statement in enumerate(module.statements):
        if isinstance(statement, Process) and len(statement.edges) == 1 and len(statement.steps) == 1:
            step = statement.steps[0]
            if (
                isinstance(step, Set)
                and isinstance(step.target, RtlilSlice)
                and isinstance(step.value, RtlilSlice)
            ):
                registers[step.value.wire] = (index, statement, step.target)
    gone = set()
    for index, statement in enumerate(module.statements):
        if not isinstance(statement, Process) or statement.edges:
            continue
        first = statement.steps[0]
        if not isinstance(first, Set) or not isinstance(first.target, RtlilSlice):
            continue
        next_value = module.signals[first.target.wire]
        # Nobody else may look at the next value.
        if uses[next_value.name] != 1 or next_value.name not in registers or next_value.attributes:
            continue
        place, clocked, register = registers[next_value.name]
        value = clocked.steps[0].value  # type: ignore[union-attr]
        if (
            value != next_value.whole
            or register != module.signals[register.wire].whole
            or next_value.direction
        ):
            continue

        def drive(use: RtlilSlice, register: RtlilSlice = register) -> RtlilSlice:
            return RtlilSlice(register.wire, use.low, use.bits)

        steps = changed_steps(statement.steps, lambda use: use, drive)
        if steps[0] == Set(register, register):
            steps = steps[1:]
        start = module.signals[register.wire].initial
        if steps or start is None:
            module.statements[index] = Process(clocked.edges, steps)
        else:
            module.statements[index] = Assign(register, start)
        gone.add(place)
        del module.signals[next_value.name]
    module.statements = [statement for place, statement in enumerate(module.statements) if place not in gone]
    _forget_aliases(module)


def _forget_aliases(module: Module) -> None:
    """Names of what is gone."""
    module.aliases = [
        (name, value)
        for name, value in module.aliases
        if all(use.wire in module.signals for use in slices(value))
    ]


def write_choices(module: Module) -> None:
    """A combinational process with few conditions is an assignment with `?:`."""
    for index, statement in enumerate(module.statements):
        if isinstance(statement, Process) and not statement.edges:
            target = module.signals[next(sets(statement.steps)).target.wire].whole  # type: ignore[union-attr]
            value = _value_of(statement.steps, target)
            if value is not None:
                module.statements[index] = Assign(target, value)


def _value_of(steps: list[Step], target: RtlilSlice) -> Expression | None:
    """The value of the whole target after the steps, where there are few."""
    first, *more = steps
    if not isinstance(first, Set) or first.target != target:
        return None
    if all(isinstance(step, Set) and isinstance(step.target, RtlilSlice) for step in more):
        return functools.reduce(_overlaid, more, first.value)  # type: ignore[arg-type]
    branch, *rest = more
    if rest or not isinstance(branch, Branch) or len(branch.arms) > MOST_ARMS:
        return None
    value = first.value
    for condition, inner in reversed(branch.arms):
        arm = _value_of(inner, target) if inner else first.value
        if arm is None or (isinstance(arm, VerilogOperation) and arm.operator == "?:"):
            return None
        value = arm if condition is None else choice(condition, arm, value)
    return value


def _overlaid(value: Expression, part: Set) -> Expression:
    """A value with some bits of it set."""
    low, high = part.target.low, part.target.low + part.target.bits  # type: ignore[union-attr]
    return join([cut(value, high, value.bits - high), part.value, cut(value, 0, low)])


def share_values(module: Module) -> None:
    """Nameless signals of one expression are one; where a signal with a name has it, that one."""
    while True:
        first: dict[Expression, str] = {}
        assigns = list(_whole_assigns(module))
        for target, value in assigns:
            if not is_nameless(target):
                first.setdefault(value, target)
        same = {}
        for target, value in assigns:
            kept = first.setdefault(value, target)
            if kept != target and is_nameless(target) and not module.signals[target].direction:
                same[target] = module.signals[kept].whole
        if not same:
            return
        _remove_assigns(module, same.keys())
        _substitute(module, same)


def _remove_assigns(module: Module, names: Container[str]) -> None:
    """Removes the assignments to signals of these names."""
    module.statements = [
        statement
        for statement in module.statements
        if not (
            isinstance(statement, Assign)
            and isinstance(statement.target, RtlilSlice)
            and statement.target.wire in names
        )
    ]


def _whole_assigns(module: Module) -> Iterator[tuple[str, VerilogOperation]]:
    """Whole signals with an operation for a value."""
    for statement in module.statements:
        if isinstance(statement, Assign) and isinstance(statement.target, RtlilSlice):
            signal = module.signals[statement.target.wire]
            if (
                statement.target == signal.whole
                and isinstance(statement.value, VerilogOperation)
                and not signal.attributes
            ):
                yield signal.name, statement.value


def narrow_sums(module: Module) -> None:
    """A nameless sum or difference has the bits that are used: a carry that nobody looks at is left out."""
    highest: dict[str, int] = collections.defaultdict(int)
    for use in module.uses():
        highest[use.wire] = max(highest[use.wire], use.low + use.bits)
    for statement in module.statements:
        if not isinstance(statement, Assign) or not isinstance(statement.target, RtlilSlice):
            continue
        signal, value, bits = (
            module.signals[statement.target.wire],
            statement.value,
            highest[statement.target.wire],
        )
        is_sum = (
            isinstance(value, VerilogOperation) and value.operator in ("+", "-") and len(value.operands) == 2
        )
        if is_sum and is_nameless(signal.name) and not signal.direction and 0 < bits < signal.bits:
            operands = (_unsigned(operand, bits) for operand in value.operands)  # type: ignore[union-attr]
            statement.value = operation(value.operator, tuple(operands), bits)  # type: ignore[union-attr]
            signal.bits = bits
            statement.target = signal.whole
            module.narrowed.add(signal.name)


def _unsigned(operand: Expression, bits: int) -> Expression:
    """The lowest bits of an operand of a sum."""
    if isinstance(operand, VerilogOperation) and operand.operator == "$signed":
        return extend(operand.operands[0], bits, signed=True)
    return extend(operand, bits)


def name_fields(module: Module) -> None:
    """Parts of a record are read by their names."""
    known = {
        wire: {name: place for name, place in fields.items() if name in module.signals}
        for wire, fields in fields_of(module).items()
    }
    found: dict[RtlilSlice, Expression] = {}
    used: dict[str, RtlilSlice] = {}

    def change(use: RtlilSlice) -> Expression:
        if use.wire not in known or use == module.signals[use.wire].whole:
            return use
        if use not in found:
            found[use] = by_fields(use, known[use.wire])
            for part in slices(found[use]):
                if part.wire != use.wire:
                    used[part.wire] = known[use.wire][part.wire]
        return found[use]

    module.change(change)
    definitions: list[Statement] = [Assign(module.signals[name].whole, value) for name, value in used.items()]
    module.statements = definitions + module.statements
    module.aliases = [(name, value) for name, value in module.aliases if name.wire not in used]


def write_inline(module: Module) -> None:
    """Nameless signals move to where they are used: complements always, others that are used once and are short."""
    uses = collections.Counter(use.wire for use in module.uses())
    parts = {use.wire for use in module.uses() if use.bits != module.signals[use.wire].bits}
    fixed = _fixed(module)
    definitions: dict[str, Expression] = {}
    for target, value in _whole_assigns(module):
        signal = module.signals[target]
        if not is_nameless(target) or signal.direction or target in parts | fixed or not uses[target]:
            continue
        if value.operator == "!" and not isinstance(value.operands[0], VerilogOperation):
            definitions[target] = value
        elif uses[target] == 1 and _is_self_contained(value):
            definitions[target] = value
    resolved: dict[str, Expression] = {}

    def resolve(name: str) -> Expression:
        """The definition with what is inline in it; what would be too long keeps its name."""
        if name not in resolved:
            resolved[name] = module.signals[name].whole  # while it is looked at
            resolved[name] = replace(definitions[name], change)
        return resolved[name]

    def change(use: RtlilSlice) -> Expression:
        if use.wire not in definitions:
            return use
        value = resolve(use.wire)
        return value if leaves(value) <= MOST_LEAVES else use

    module.change(change)
    left = {use.wire for use in module.uses()}
    unused = definitions.keys() - left
    _remove_assigns(module, unused)
    for name in unused:
        del module.signals[name]


def _fixed(module: Module) -> set[str]:
    """Signals that are clocks, or operands of arithmetic that another width would change."""
    found = set()
    for statement in module.statements:
        if isinstance(statement, Process):
            found |= {use.wire for _, clock in statement.edges for use in slices(clock)}
        for value in reads(statement):
            found |= set(_operands_of_arithmetic(value))
    return found


def _operands_of_arithmetic(value: Expression) -> Iterator[str]:
    if isinstance(value, VerilogOperation):
        wider = any(operand.bits != value.bits for operand in value.operands)
        if value.operator in ("+", "-", "*", "/", "%", "<<", ">>", ">>>") and wider:
            for operand in value.operands:
                if not isinstance(operand, VerilogOperation) or operand.operator == "$signed":
                    yield from (use.wire for use in slices(operand) if use.bits > 1)
        for operand in value.operands:
            yield from _operands_of_arithmetic(operand)


def _is_self_contained(value: VerilogOperation) -> bool:
    """Whether it means the same in every context: what has one bit, and logic choices and sums of equal widths."""
    if value.operator in COMPARISONS or value.operator == "!":
        return True
    if len(value.operands) == 1:
        return value.operator in REDUCTIONS or value.operator == "~"
    if value.operator == "?:":
        return all(operand.bits == value.bits for operand in value.operands[1:])
    return value.operator in (*REDUCTIONS, "+", "-") and all(
        operand.bits == value.bits for operand in value.operands
    )


def drop_unused(module: Module) -> None:
    """Names that nothing reads, with what makes their values."""
    uses = collections.Counter(use.wire for use in module.uses())
    driven: dict[str, list[int]] = collections.defaultdict(list)
    for index, statement in enumerate(module.statements):
        for target in targets(statement):
            for use in slices(target) if not isinstance(target, MemoryWord) else ():
                driven[use.wire].append(index)
    connected = {
        use.wire
        for instance in module.instances
        for value in instance.connections.values()
        for use in slices(value)
    }

    def is_free(name: str) -> bool:
        signal = module.signals.get(name)
        return signal is not None and not (
            uses[name] or signal.direction or signal.attributes or signal.depth or name in connected
        )

    gone: set[int] = set()
    pending = [name for name in module.signals if is_free(name)]
    while pending:
        name = pending.pop()
        if not is_free(name):
            continue
        del module.signals[name]
        for index in set(driven[name]) - gone:
            gone.add(index)
            for value in reads(module.statements[index]):
                for use in slices(value):
                    uses[use.wire] -= 1
                    pending.append(use.wire)
    module.statements = [statement for index, statement in enumerate(module.statements) if index not in gone]
    _forget_aliases(module)
