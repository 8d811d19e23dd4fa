"""The work of a program's units in the order of its instructions, for the clock that predicts its cycles."""

from collections.abc import Iterable, Iterator

from tosaic.compiler.cost.clock import BlockWork, UnitWork
from tosaic.compiler.emit.commands import Block
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.items import Item
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.hw.isa import Unit


def block_works(blocks: Iterable[Block]) -> Iterator[BlockWork]:
    """Yields the work of blocks that was emitted with its costs."""
    for block in blocks:
        tracker = Tracker()
        for work in block.work:
            tracker.add(work)
        known = dict[tuple[Unit, int], UnitWork]()
        for item in interleave(tracker.items):
            known[item.unit, item.index] = _piece(item, known)
        yield BlockWork(list(known.values()), branches=block.branch is not None)


def _piece(item: Item, known: dict[tuple[Unit, int], UnitWork]) -> UnitWork:
    piece = item.work.cost
    assert piece is not None
    piece.after = [known[found] for found in item.waits.items()]
    piece.behind = known[Unit.LOAD, item.behind_load] if item.behind_load >= 0 else None
    piece.commands = len(item.commands())
    if item.unit is Unit.VECTOR:
        piece.setup = len(item.work.configuration)
    return piece
