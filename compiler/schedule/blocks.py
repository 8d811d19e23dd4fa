"""The program as straight pieces with branches between them."""

import dataclasses

from tosaic.compiler.schedule.tracker import Tracker
from tosaic.hw.isa import Condition


@dataclasses.dataclass(eq=False)
class Label:
    """A place that branches lead to: the start of a block."""

    name: str


@dataclasses.dataclass
class Block:
    """Instructions without a branch, then one. All units are idle at the start of a block, so nothing in it waits for
    another block, and its semaphores are as they were when it ends."""

    labels: list[Label] = dataclasses.field(default_factory=list)
    tracker: Tracker = dataclasses.field(default_factory=Tracker)
    branch: tuple[Condition, Label] | None = None
    """The last block has none."""


class Blocks:
    """The blocks of a program under construction, in order."""

    def __init__(self) -> None:
        self.all = [Block()]

    @property
    def current(self) -> Block:
        return self.all[-1]

    def branch(self, condition: Condition, label: Label) -> None:
        """Ends the block."""
        self.current.branch = (condition, label)
        self.all.append(Block())

    def place(self, label: Label) -> None:
        """The next instruction is where the label's branches lead. Whoever comes to it from above waits, too."""
        if self.current.tracker.items or len(self.all) == 1:
            self.branch(Condition.NEVER, label)
        self.current.labels.append(label)
