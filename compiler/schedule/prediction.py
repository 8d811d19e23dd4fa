"""Predicts the cycles of a program from the work of its units: the clock takes it in the order of the instructions."""

from collections.abc import Iterable

from tosaic.compiler.cost.clock import UnitClock, UnitWork
from tosaic.compiler.emit.commands import Block
from tosaic.compiler.machine_numbers import BRANCH_CYCLES
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.schedule.interleave import interleave
from tosaic.compiler.schedule.items import Item
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, Unit

_EARLY = {Opcode.VECTOR_UOP, Opcode.VECTOR_BOUNDS}


def predicted_cycles(blocks: Iterable[Block], config: Config, speed: MemorySpeed) -> int:
    """Cycles of blocks whose work was emitted with its costs, each run once."""
    total = 0.0
    for block in blocks:
        tracker = Tracker()
        for work in block.work:
            tracker.add(work)
        clock, known = UnitClock(config, speed), dict[tuple[Unit, int], UnitWork]()
        for item in interleave(tracker.items):
            piece = _piece(item, known)
            known[item.unit, item.index] = piece
            clock.take([piece])
        total += clock.end_cycle
        total += BRANCH_CYCLES if block.branch is not None else 0
    return round(total)


def _piece(item: Item, known: dict[tuple[Unit, int], UnitWork]) -> UnitWork:
    piece = item.work.cost
    assert piece is not None
    piece.after = [known[found] for found in item.waits.items()]
    piece.behind = known[Unit.LOAD, item.behind_load] if item.behind_load >= 0 else None
    piece.commands = len(item.commands())
    if item.unit is Unit.VECTOR:
        piece.setup = len(item.work.configuration)
    return piece
