"""A virtual board's line inside this process."""

from .simulator import BoardSimulator

CYCLES_PER_LOOK = 20_000
IDLE_CYCLES = 120_000
"""Cycles that a read without an answer lets go by; far more than any answer takes to begin."""


class VirtualLine:
    """A line (driver.transports.line) whose other end is a simulated board.

    The board's clock runs while somebody reads from the line or waits; time is counted in cycles, so that what
    happens does not depend on the speed of the machine underneath.
    """

    def __init__(self, board: BoardSimulator):
        self.board = board

    def write(self, data: bytes) -> None:
        self.board.send(data)

    def read(self, seconds: float) -> bytes:
        """What comes within IDLE_CYCLES, at once when an answer is complete; `seconds` mean nothing here."""
        for _ in range(IDLE_CYCLES // CYCLES_PER_LOOK):
            if received := self.board.run(CYCLES_PER_LOOK):
                return received
        return b""

    def pause(self, seconds: float) -> None:
        """Let the board work."""
        self.board.run(CYCLES_PER_LOOK)

    def close(self) -> None:
        self.board.close()
