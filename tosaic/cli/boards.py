"""`tosaic boards`: the boards there are."""

from tosaic.boards.catalogue import known_boards
from tosaic.cli.configs import decoders
from tosaic.hw.config_text import get_config


def boards() -> None:
    """List the boards: FPGA, configuration, clock, external memory, device URI, who makes the bitstream, and what
    reads compressed weights."""
    rows = [("name", "part", "config", "clock", "memory", "device", "bitstream", "decoders")]
    rows += [
        (
            board.name,
            board.part,
            board.config if board.machine == "array" else f"{board.config}, {board.machine}",
            f"{board.clock_hz / 1e6:g} MHz",
            board.memory,
            board.transport,
            "open tools" if board.family.is_open else "Vivado script",
            decoders(get_config(board.config)),
        )
        for board in known_boards().values()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
