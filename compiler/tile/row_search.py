"""GATHER of a few rows, at indices of run time, of a table in external memory: branches find the block with the row.

Instructions have constant addresses, so that there is one LOAD for each block of the table. The bits of a block's
number decide branches, one after the other, down to its LOAD. The machine does this for each index in turn."""

import dataclasses

from tosaic.compiler.cost.moves import searched_cycles
from tosaic.compiler.cost.transfers import runs_cycles
from tosaic.compiler.fuse.indexed import IndexedMove
from tosaic.compiler.machine_numbers import SEARCHED_BLOCK_AM_PART, SEARCHED_BLOCK_BYTES
from tosaic.compiler.place.placement import Placement
from tosaic.compiler.place.placer import Placer
from tosaic.hw.isa import Element

WORD_BYTES = Element.INT32.bytes
STATE = ("the index's offset in its list", "the row's offset in its list", "indices to come")
"""Words that change from index to index."""


@dataclasses.dataclass(frozen=True)
class RowSearchPlan:
    """Such a GATHER, with addresses of activation memory for all that it needs."""

    move: IndexedMove
    row_bytes: int
    values: Placement
    indices: Placement
    output: Placement
    cycles: int
    """Predicted for all rows."""
    block_rows: int
    """A power of two."""
    block: int
    """Address of the block that was found."""
    steps: int
    """Address of the shift of each bit of a block's number, of what `STATE` grows by from index to index, and of
    the largest that it may be; int32."""
    words: int
    """Address of the row's offset in its block, and of `STATE`; int32."""
    flags: int
    """Address of a byte for each bit of a block's number, and of one that tells whether there is another index."""
    index_list: int | None
    """Address of the indices, where they come from outside."""
    row: int | None
    """Address of a row between the block and the list; None where there is one row, which goes to its place."""
    rows: int | None
    """Address of the list, where that is outside."""

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.move.table_rows // self.block_rows)

    @property
    def levels(self) -> int:
        """Bits of a block's number."""
        return (self.blocks - 1).bit_length()

    def addresses(self) -> list[int]:
        """All buffers, to be freed afterwards."""
        found = [self.block, self.steps, self.words, self.flags, self.index_list, self.row, self.rows]
        return [address for address in found if address is not None]


def plan_row_search(placer: Placer, move: IndexedMove, output: str) -> RowSearchPlan | None:
    """None where the operator is another one, where to bring the whole table takes no longer, or where the buffers do
    not fit."""
    storage, places = placer.tensors.storage, placer.placements
    values, config, speed = places[storage[move.values]], placer.config, placer.memories.speed
    if move.scatters or move.constant is not None or values.resident or not move.batches == config.cores == 1:
        return None
    row_bytes = move.row_elements * placer.tensors.element(output).bytes
    most_bytes = min(SEARCHED_BLOCK_BYTES, config.am_bytes // SEARCHED_BLOCK_AM_PART)
    block_rows = 1 << max(0, (most_bytes // row_bytes).bit_length() - 1)
    levels = (-(-move.table_rows // block_rows) - 1).bit_length()
    block_bytes = block_rows * row_bytes
    cycles = searched_cycles(move.count, levels, block_bytes, row_bytes, config, speed)
    if not levels or cycles >= runs_cycles(values.bytes, 0, config, speed):
        return None
    found, indices = places[storage[output]], places[storage[move.indices]]
    sizes = {
        "block": block_bytes + config.columns,
        "steps": WORD_BYTES * (levels + 2 * len(STATE)),
        "words": WORD_BYTES * (1 + len(STATE)),
        "flags": levels + 1,
        "index_list": 0 if indices.resident else WORD_BYTES * move.count,
        "row": row_bytes + config.columns if move.count > 1 else 0,
        "rows": 0 if found.resident else move.count * row_bytes + config.columns,
    }
    taken: dict[str, int] = {}
    for name, size in sizes.items():
        address = placer.allocate(size, high=True) if size else None
        if address is not None:
            taken[name] = address
        elif size:
            for other in taken.values():
                placer.arena.free(other)
            return None
    return RowSearchPlan(
        move,
        row_bytes,
        values,
        indices,
        found,
        cycles,
        block_rows,
        taken["block"],
        taken["steps"],
        taken["words"],
        taken["flags"],
        taken.get("index_list"),
        taken.get("row"),
        taken.get("rows"),
    )
