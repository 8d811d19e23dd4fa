"""Cycles of layers that move elements, in blocks: copies, and tables that are indexed."""

import dataclasses

from tosaic.compiler.cost.boxes import moved_boxes_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.machine_numbers import (
    BRANCH_CYCLES,
    BRANCH_TAKEN_CYCLES,
    COPY_BLOCK_CYCLES,
    SEARCH_START_CYCLES,
    VECTOR_GO_CYCLES,
)
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config


def moving_cycles(vectors: int) -> int:
    """Cycles of VECTOR for a GO that moves `vectors`."""
    return VECTOR_GO_CYCLES + vectors


@dataclasses.dataclass(frozen=True)
class CopyDemand:
    """A copy in blocks."""

    blocks: int
    moving_cycles: int
    """Cycles of VECTOR for all parts of the copy."""
    parts: int
    read_bytes: int
    """Bytes of all sources that come from outside."""
    bursts: int
    """Short bursts of a block, where sources come part by part."""
    block_bytes: int
    """Bytes of a block that leaves; 0 where the result is resident."""


def copy_cycles(demand: CopyDemand, config: Config, speed: MemorySpeed, *, doubled: bool) -> int:
    """Cycles of a copy: a block has commands of its own, and waits for the one before it."""
    blocks = demand.blocks
    computing = demand.moving_cycles + blocks * (COPY_BLOCK_CYCLES + speed.latency_cycles) * max(
        1, demand.parts
    )
    read = runs_cycles(demand.read_bytes, 0, config, speed)
    read = max(read, int(blocks * demand.bursts * speed.burst_cycles))
    leaving = runs_cycles(demand.block_bytes, 0, config, speed)
    return moved_boxes_cycles([(blocks, (computing + read) // blocks, 0, leaving)], speed, doubled=doubled)


@dataclasses.dataclass(frozen=True)
class TableDemand:
    """A table of which parts are in memory in turn, and a list in blocks."""

    blocks: int
    ranges: int
    """Ranges of rows, each of which all blocks look at."""
    vectors: int
    """Vectors of a block."""
    table_comes: int
    """How often a part of the table comes."""
    table: tuple[int, int, bool] | None
    """Rows of a part, bytes of each, and whether these are whole rows; None where the table is resident."""
    rows: tuple[int, int, bool] | None
    """The same of a block of the list."""


def table_cycles(demand: TableDemand, config: Config, speed: MemorySpeed, *, doubled: bool) -> int:
    """Cycles of a GATHER or SCATTER."""
    table, moved = (
        0 if part is None else _rows_cycles(part, config, speed) for part in (demand.table, demand.rows)
    )
    each = (demand.blocks, demand.vectors + demand.ranges * VECTOR_GO_CYCLES, 0, moved)
    return table * demand.table_comes + moved_boxes_cycles([each], speed, doubled=doubled)


def searched_cycles(
    rows: int, levels: int, block_bytes: int, row_bytes: int, config: Config, speed: MemorySpeed
) -> int:
    """Cycles to find rows of a table one after the other, each by `levels` branches, and to load its block."""
    taken = speed.latency_cycles + BRANCH_TAKEN_CYCLES
    branches = (levels * (2 * BRANCH_CYCLES + taken) + 2 * taken) // 2
    loaded = speed.latency_cycles + runs_cycles(block_bytes, 0, config, speed)
    moved = 2 * moving_cycles(-(-row_bytes // config.columns))
    return rows * (SEARCH_START_CYCLES + branches + loaded + moved)


@dataclasses.dataclass(frozen=True)
class ReductionDemand:
    """A reduction in boxes."""

    boxes: int
    vector_cycles: int
    """Cycles of VECTOR for all boxes."""
    read_bytes: int
    """Bytes that each box brings."""
    written_bytes: int
    """Bytes that each box sends."""
    arriving_bytes: int
    """Bytes of resident operands that come meanwhile: the first box waits for its part."""


def reduced_cycles(demand: ReductionDemand, config: Config, speed: MemorySpeed, *, doubled: bool) -> int:
    """Cycles of a reduction."""
    boxes, first = demand.boxes, demand.arriving_bytes // demand.boxes
    waits, read, written = (
        runs_cycles(size, 0, config, speed) for size in (first, demand.read_bytes, demand.written_bytes)
    )
    each = demand.vector_cycles // boxes
    return waits + moved_boxes_cycles([(boxes, each, read, written)], speed, doubled=doubled)


def _rows_cycles(part: tuple[int, int, bool], config: Config, speed: MemorySpeed) -> int:
    """Cycles of the bus for some rows, each a burst of its own where they are parts of rows."""
    rows, row_bytes, whole = part
    cycles = runs_cycles(rows * row_bytes, 0, config, speed)
    return cycles if whole else max(cycles, int(rows * speed.burst_cycles))
