"""Blocks of a program under construction: where labels go, and which branches lead there."""

import pytest

from tosaic.compiler.emit.commands import Blocks, Label, Work
from tosaic.hw.isa import Condition, Unit

WORK, LABEL, OTHER = Work(Unit.VECTOR, []), Label("here"), Label("there")


def blocks(*work: int) -> Blocks:
    """Blocks with some pieces of work each, and a branch elsewhere at the end of all but the last."""
    made = Blocks()
    for number, count in enumerate(work):
        if number:
            made.branch(Condition.IF_SET, OTHER)
        made.current.work += [WORK] * count
    return made


@pytest.mark.parametrize("work, ends", [((0,), True), ((1,), True), ((1, 1), True), ((1, 0), False)])
@pytest.mark.parametrize("second", [False, True])
def test_a_label_begins_a_block(work: tuple[int, ...], ends: bool, second: bool) -> None:
    """A new one, unless the one that has begun is empty and not the program's first. Labels share a block."""
    made = blocks(*work)
    made.place(LABEL)
    if second:
        made.place(OTHER)
    branches = [(Condition.IF_SET, OTHER)] * (len(work) - 1) + [(Condition.NEVER, LABEL)] * ends
    assert [block.branch for block in made.all] == [*branches, None]
    assert [len(block.work) for block in made.all] == [*work, *[0] * ends]
    assert [block.labels for block in made.all[:-1]] == [[] for _ in made.all[:-1]]
    assert made.current.labels == ([LABEL, OTHER] if second else [LABEL])
