"""A virtual board at a pseudo-terminal: to any program it is a serial port."""

import os
import select
import threading
import tty

from .simulator import BoardSimulator

CYCLES_PER_LOOK = 20_000
AFTER_CYCLES = 2_000_000
"""The board's clock stops so long after the last byte on the line, so that a forgotten board costs nothing."""


class PseudoTerminal:
    """Moves bytes between a board and `path`, which serial programs open, in a thread of its own.

    The terminal's baud rate means nothing. The clock runs while bytes come, and AFTER_CYCLES more: a host that waits
    for a program asks from time to time.
    """

    def __init__(self, board: BoardSimulator):
        self.board = board
        self._end, self._other = os.openpty()
        tty.setraw(self._other)
        self.path = os.ttyname(self._other)
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._serve, name=f"virtual board {board.rtl.name}", daemon=True
        )
        self._thread.start()

    def _serve(self) -> None:
        left = 0
        while not self._stop.is_set():
            readable, _, _ = select.select([self._end], [], [], 0 if left > 0 else 0.05)
            if readable:
                self.board.send(os.read(self._end, 1 << 16))
                left = AFTER_CYCLES
            if left > 0:
                received = self.board.run(CYCLES_PER_LOOK)
                left -= CYCLES_PER_LOOK
                if received:
                    left = AFTER_CYCLES
                    os.write(self._end, received)

    def close(self) -> None:
        """Unplug the board."""
        self._stop.set()
        self._thread.join()
        os.close(self._end)
        os.close(self._other)
