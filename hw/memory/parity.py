"""Parity bits beside the bytes of a memory, in the ninth bit that block RAMs have for each byte."""

from amaranth.hdl import Cat, Value

CELL_BITS = 9
"""A byte and its parity, which makes the number of ones even: memories that begin with zeros begin right."""
READ_BITS = CELL_BITS + 1
"""A cell that was read, and whether it was written in the same cycle: then it may be anything (words.py)."""


def with_parity(data: Value) -> Value:
    """Returns the bytes of `data` as cells."""
    bytes_ = (data.word_select(index, 8) for index in range(len(data) // 8))
    return Cat(Cat(byte, byte.xor()) for byte in bytes_)


def as_read(cells: Value, written: Value) -> Value:
    """Returns cells as they are read, with a bit of `written` each."""
    return Cat(Cat(cells.word_select(index, CELL_BITS), bit) for index, bit in enumerate(written))


def bytes_of(read: Value) -> Value:
    """Returns the bytes of what was read."""
    return Cat(read.word_select(index, READ_BITS)[:8] for index in range(len(read) // READ_BITS))


def wrong_parity(read: Value) -> Value:
    """Returns whether the parity of any of the cells that were read is wrong."""
    cells = (read.word_select(index, READ_BITS) for index in range(len(read) // READ_BITS))
    return Cat(cell[:CELL_BITS].xor() & ~cell[-1] for cell in cells).any()


__all__ = ["CELL_BITS", "READ_BITS", "as_read", "bytes_of", "with_parity", "wrong_parity"]
