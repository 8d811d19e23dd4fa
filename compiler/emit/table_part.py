"""Parts of a GATHER's or SCATTER's table and list."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TablePart:
    """A tile at its place: what of the table it is, and the address of its first row."""

    batch: int
    batches: int
    row: int
    rows: int
    byte: int
    row_bytes: int
    address: int
    pitch: int
    spare: bool


@dataclasses.dataclass(frozen=True)
class ListBlock:
    """List rows of some batches: all of them, or some of one batch."""

    batch: int
    batches: int
    row: int
    rows: int
