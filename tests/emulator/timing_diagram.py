"""A run's timeline as text: one line for each GO, as docs/architecture.md shows it."""

from collections.abc import Sequence

from tosaic.sim.result import Slice

CYCLES = 8
"""Cycles of a character."""


def diagram(slices: Sequence[Slice], cycles: int) -> list[str]:
    """`#` where a GO is at work, from its first cycle to its last, in the order of their starts."""
    width = -(-cycles // CYCLES)
    ruler = "".join(f"{'|' + str(CYCLES * at):<10}" for at in range(0, width, 10))
    lines = [f"{'cycle':22}{ruler}".rstrip()]
    for piece in sorted(slices, key=lambda piece: (piece.start, piece.end)):
        first, last = piece.start // CYCLES, (piece.end - 1) // CYCLES
        wave = "_" * first + "#" * (last + 1 - first) + "_" * (width - last - 1)
        what = piece.name + (f" {piece.bytes} B" if piece.bytes else "")
        lines.append(f"{piece.unit:7}{what:15}{wave} {piece.start}..{piece.end}")
    return lines
