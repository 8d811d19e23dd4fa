"""A module of Verilog as objects: declarations, instances, statements."""

import dataclasses
from collections.abc import Callable, Iterator

from .expressions import Concatenation, Expression, MemoryWord, Speller, replace, slices
from .rtlil import Constant, RtlilSlice


@dataclasses.dataclass
class Signal:
    """A declared name. `direction` is "input", "output", "inout" or "" for one inside; `depth` is that of a memory."""

    name: str
    bits: int
    direction: str = ""
    initial: Constant | None = None
    depth: int = 0
    attributes: dict[str, object] = dataclasses.field(default_factory=dict)
    """Attributes of synthesis, such as `no_rw_check`."""

    @property
    def whole(self) -> RtlilSlice:
        return RtlilSlice(self.name, 0, self.bits)


@dataclasses.dataclass
class Instance:
    module: str
    name: str
    connections: dict[str, Expression]
    parameters: dict[str, object] = dataclasses.field(default_factory=dict)
    attributes: dict[str, object] = dataclasses.field(default_factory=dict)
    outputs: set[str] = dataclasses.field(default_factory=set)
    """Ports that drive what they are connected with."""


Target = RtlilSlice | MemoryWord | Concatenation


@dataclasses.dataclass
class Set:
    """An assignment in a process."""

    target: Target
    value: Expression


@dataclasses.dataclass
class Branch:
    """`if` and its `else if`; the last condition may be None, `else`."""

    arms: list[tuple[Expression | None, list["Step"]]]


@dataclasses.dataclass
class VerilogSelect:
    """`casez`; an arm without patterns is `default`."""

    selector: Expression
    arms: list[tuple[tuple[str, ...], list["Step"]]]


Step = Set | Branch | VerilogSelect


@dataclasses.dataclass
class Assign:
    target: Target
    value: Expression


@dataclasses.dataclass
class Process:
    """`edges`: ("posedge", clock); without any it is combinational."""

    edges: tuple[tuple[str, Expression], ...]
    steps: list[Step]


@dataclasses.dataclass
class Fill:
    """What a memory begins with, a word each."""

    memory: str
    words: tuple[Constant, ...]


Statement = Assign | Process | Fill
Change = Callable[[RtlilSlice], Expression]


def _same(use: RtlilSlice) -> Expression:
    return use


@dataclasses.dataclass
class Module:
    name: str
    signals: dict[str, Signal] = dataclasses.field(default_factory=dict)
    instances: list[Instance] = dataclasses.field(default_factory=list)
    statements: list[Statement] = dataclasses.field(default_factory=list)
    aliases: list[tuple[RtlilSlice, Expression]] = dataclasses.field(default_factory=list)
    """More names of Python, and what they are names of: nothing reads them."""
    source: str = ""
    """FILE:LINE in Python."""
    original: str = ""
    """Its name in RTLIL."""
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    """Names in Verilog by those in RTLIL."""
    narrowed: set[str] = dataclasses.field(default_factory=set)
    """Names in RTLIL of signals that have fewer bits here."""
    instance_names: dict[str, str] = dataclasses.field(default_factory=dict)
    """The same of instances."""
    copies: list["Module"] = dataclasses.field(default_factory=list)
    """Modules of RTLIL with the same text."""
    results: set[str] = dataclasses.field(default_factory=set)
    """Names of what has more than a bit and none in Python: results on the way, and parts of records."""

    @property
    def ports(self) -> list[Signal]:
        return [signal for signal in self.signals.values() if signal.direction]

    def speller(self) -> Speller:
        return Speller({signal.name: signal.bits for signal in self.signals.values()})

    def uses(self) -> Iterator[RtlilSlice]:
        """Every read of a signal."""
        for statement in self.statements:
            for value in reads(statement):
                yield from slices(value)
        for instance in self.instances:
            for port, value in instance.connections.items():
                if port not in instance.outputs:
                    yield from slices(value)

    def change(self, reads: Change, targets: Change = _same) -> None:
        """Rewrites every read of a signal, and every signal that is driven."""
        self.statements = [changed(statement, reads, targets) for statement in self.statements]
        for instance in self.instances:
            instance.connections = {
                port: replace(value, targets if port in instance.outputs else reads)
                for port, value in instance.connections.items()
            }

    def rename(self, names: dict[str, str]) -> None:
        """Signals, memories among them, wherever they stand; the module remembers what they were."""

        def renamed(use: RtlilSlice) -> RtlilSlice:
            return RtlilSlice(names.get(use.wire, use.wire), use.low, use.bits)

        self.change(renamed, renamed)
        self.statements = [_memories_renamed(statement, names) for statement in self.statements]
        self.aliases = [(renamed(name), replace(value, renamed)) for name, value in self.aliases]
        for signal in self.signals.values():
            signal.name = names.get(signal.name, signal.name)
        self.signals = {signal.name: signal for signal in self.signals.values()}
        self.results = {names.get(name, name) for name in self.results}
        self.names = {old: names.get(new, new) for old, new in self.names.items()} | names


def reads(statement: Statement | Step) -> Iterator[Expression]:
    """Every expression that a statement evaluates."""
    match statement:
        case Assign() | Set():
            if isinstance(statement.target, MemoryWord):
                yield statement.target.address
            yield statement.value
        case Process():
            yield from (clock for _, clock in statement.edges)
            for step in statement.steps:
                yield from reads(step)
        case Branch():
            for condition, steps in statement.arms:
                if condition is not None:
                    yield condition
                for step in steps:
                    yield from reads(step)
        case VerilogSelect():
            yield statement.selector
            for _, steps in statement.arms:
                for step in steps:
                    yield from reads(step)


def sets(steps: list[Step]) -> Iterator[Set]:
    """Every assignment in a process."""
    for step in steps:
        if isinstance(step, Set):
            yield step
        else:
            for _, inner in step.arms:
                yield from sets(inner)


def targets(statement: Statement) -> list[Target]:
    """What a statement drives."""
    if isinstance(statement, Assign):
        return [statement.target]
    return [step.target for step in sets(statement.steps)] if isinstance(statement, Process) else []


def changed(statement: Statement, read: Change, drive: Change = _same) -> Statement:
    """A statement with its reads and its targets rewritten."""
    match statement:
        case Assign():
            return Assign(_target(statement.target, read, drive), replace(statement.value, read))
        case Process():
            edges = tuple((edge, replace(clock, read)) for edge, clock in statement.edges)
            return Process(edges, changed_steps(statement.steps, read, drive))
    return statement


def changed_steps(steps: list[Step], read: Change, drive: Change = _same) -> list[Step]:
    """The same of the steps of a process."""
    return [_changed_step(step, read, drive) for step in steps]


def _changed_step(step: Step, read: Change, drive: Change) -> Step:
    match step:
        case Set():
            return Set(_target(step.target, read, drive), replace(step.value, read))
        case Branch():
            return Branch(
                [
                    (condition and replace(condition, read), changed_steps(inner, read, drive))
                    for condition, inner in step.arms
                ]
            )
        case VerilogSelect():
            arms = [(patterns, changed_steps(inner, read, drive)) for patterns, inner in step.arms]
            return VerilogSelect(replace(step.selector, read), arms)


def _target(target: Target, read: Change, drive: Change) -> Target:
    changed_target = replace(target, read if isinstance(target, MemoryWord) else drive)
    assert isinstance(changed_target, RtlilSlice | MemoryWord | Concatenation)
    return changed_target


def _memories_renamed(statement: Statement, names: dict[str, str]) -> Statement:
    """Memories stand in words and in what fills them."""
    match statement:
        case Fill():
            return Fill(names.get(statement.memory, statement.memory), statement.words)
        case Assign():
            return Assign(statement.target, _word_renamed(statement.value, names))
        case Process():
            for step in sets(statement.steps):
                step.value = _word_renamed(step.value, names)
                step.target = _word_renamed(step.target, names)  # type: ignore[assignment]
    return statement


def _word_renamed(value: Expression, names: dict[str, str]) -> Expression:
    """A memory's word stands alone: nothing takes one in."""
    if isinstance(value, MemoryWord):
        return dataclasses.replace(value, memory=names.get(value.memory, value.memory))
    return value
