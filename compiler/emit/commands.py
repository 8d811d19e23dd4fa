"""What the emit stage makes: pieces of work for the units, in blocks with branches between them."""

import dataclasses
from collections.abc import Hashable, Sequence

from tosaic.compiler.cost.clock import UnitWork
from tosaic.compiler.place.address import Address, Span
from tosaic.hw.isa import Condition, Instruction, Opcode, Unit, make


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """An instruction. Where `address` is given, its memory_address is 0 until the image is laid out."""

    instruction: Instruction
    address: Address | None = None

    def settled(self, base: int) -> Instruction:
        """The instruction, where the address's region begins at byte `base` of external memory."""
        if self.address is None:
            return self.instruction
        fields = {**self.instruction.fields, "memory_address": base + self.address.offset}
        return make(self.instruction.opcode, **fields)


def command(opcode: Opcode, memory: Address | None = None, /, **fields: int) -> Command:
    """A command; `memory` is its place in external memory, if it has one. FieldRangeError for a value that does not
    fit its field."""
    if memory is not None:
        fields["memory_address"] = 0
    return Command(make(opcode, **fields), memory)


class CommandTable:
    """The instructions of a program under construction, each content once: most of them come again and again."""

    def __init__(self) -> None:
        self.dims: dict[Hashable, dict[tuple, Command]] = {}
        """Dimensions of streams by what they walk over (`vector_go.py`)."""
        self._made: dict[Hashable, Command] = {}
        """Commands by what was asked for, in the order in which it was told."""
        self._equal: dict[Hashable, Command] = {}
        self._wrapped: dict[int, tuple[Instruction, Command]] = {}
        """By identity of the instruction, with it, so that none comes to its place."""

    def command(self, opcode: Opcode, memory: Address | None = None, /, **fields: int) -> Command:
        """The command that `command` makes."""
        key = (opcode, memory is None, tuple(fields), tuple(fields.values()))
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self._one(command(opcode, memory, **fields))
        return known if memory is None else Command(known.instruction, memory)

    def of(self, instruction: Instruction) -> Command:
        """The command of an instruction that is made already."""
        known = self._wrapped.get(id(instruction))
        if known is None:
            known = self._wrapped[id(instruction)] = instruction, self._one(Command(instruction))
        return known[1]

    def _one(self, made: Command) -> Command:
        """The first of the commands that equal this one but for the place in external memory."""
        fields = made.instruction.fields.values()
        content = (made.instruction.opcode, made.address is None, tuple(fields))
        return self._equal.setdefault(content, made)


@dataclasses.dataclass(slots=True)
class Work:
    """One piece of work of a unit, with the bytes that it reads and writes."""

    unit: Unit
    commands: Sequence[Command]
    configuration: Sequence[Command] = ()
    """What comes before it and holds from then on."""
    reads: Sequence[Span] = ()
    writes: Sequence[Span] = ()
    streams: Sequence[Span] = ()
    """What it reads, too, while it waits for the words of the loads that bring them one by one."""
    array_vectors: int = 0
    """Vectors that a vector program takes of the array's work just before it; 0: it is not fed by the array."""
    waits_for_core: bool = False
    """LOAD waits for a token of another core, which may in turn wait for all that comes before."""
    layer: int | None = None
    """The number of the layer that it belongs to; None between layers."""
    cost: UnitWork | None = None
    """What it costs the unit, where somebody asks."""


@dataclasses.dataclass(eq=False)
class Label:
    """A place that branches lead to: the start of a block."""

    name: str


@dataclasses.dataclass
class Block:
    """Work without a branch, then one. All units are idle at the start of a block, so nothing in it waits for another
    block, and its semaphores are as they were when it ends."""

    labels: list[Label] = dataclasses.field(default_factory=list)
    work: list[Work] = dataclasses.field(default_factory=list)
    branch: tuple[Condition, Label] | None = None
    """The last block has none."""
    begun: bool = False
    """Work was in it that has been taken out."""


class Blocks:
    """The blocks of a program under construction, in order."""

    def __init__(self) -> None:
        self.all = [Block()]
        self._branched = False

    @property
    def current(self) -> Block:
        return self.all[-1]

    def branch(self, condition: Condition, label: Label) -> None:
        """Ends the block."""
        self.current.branch = (condition, label)
        self.all.append(Block())
        self._branched = True

    def place(self, label: Label) -> None:
        """The next work is where the label's branches lead. Whoever comes to it from above waits, too."""
        if self.current.work or self.current.begun or not self._branched:
            self.branch(Condition.NEVER, label)
        self.current.labels.append(label)
