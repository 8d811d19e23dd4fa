"""A virtual board's line inside this process."""

from .simulator import BoardSimulator

CYCLES_PER_LOOK = 20_000
ANSWER_CYCLES = 20_000
"""Several times what the longest request takes from its last bit to its answer's first."""
BYTE_BITS = 10
CLEARED_BYTES = 1 << 20
"""Bytes that are cleared at once."""


class VirtualLine:
    """A line (driver.transports.line) whose other end is a simulated board.

    The board's clock runs while somebody reads from the line or waits; time is counted in cycles, so that what
    happens does not depend on the speed of the machine underneath.
    """

    byte_seconds = 0.0

    def __init__(self, board: BoardSimulator):
        self.board = board
        self._sent_at = 0
        """The cycle in which everything written so far has left the host."""
        self._heard = b""
        """What came while the host did not read."""

    def write(self, data: bytes) -> None:
        self.board.send(data)
        self._sent_at = (
            max(self._sent_at, self.board.cycle) + len(data) * BYTE_BITS * self.board.rtl.bit_cycles
        )

    def read(self, seconds: float) -> bytes:
        """Returns the bytes that come until ANSWER_CYCLES after all was sent, at once when an answer is complete.
        `seconds` only says whether to wait at all."""
        if self._heard:
            heard, self._heard = self._heard, b""
            return heard
        end = max(self._sent_at, self.board.cycle) + ANSWER_CYCLES
        while seconds > 0 and self.board.cycle < end:
            if received := self.board.run(CYCLES_PER_LOOK):
                return received
        return self.board.run(1)

    def fill_bytes(self, cycles: int, clock_hz: int) -> int | None:
        """The bytes that take so many cycles on the line."""
        return -(-cycles // (BYTE_BITS * self.board.rtl.bit_cycles))

    def pause(self, seconds: float) -> None:
        """Let the board work."""
        end = self.board.cycle + CYCLES_PER_LOOK
        while self.board.cycle < end:
            self._heard += self.board.run(end - self.board.cycle)

    def clear(self, address: int, count: int) -> bool:
        """Clears memory behind the board's back: its machine would take seconds for a megabyte here, where a
        real one takes 0.01.
        """
        if self.board.rtl.chip is None:
            return False
        for start in range(address, address + count, CLEARED_BYTES):
            self.board.poke(start, bytes(min(CLEARED_BYTES, address + count - start)))
        return True

    def close(self) -> None:
        self.board.close()
