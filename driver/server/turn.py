"""Whose turn it is."""

import collections
import threading
import time


class Turn:
    """One client at a time has the device, in the order in which they asked."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: collections.deque[object] = collections.deque()
        """Who has the device, then who waits."""
        self._ended = False

    def take(self, client: object, seconds: float) -> bool:
        """Wait for the turn; False when it did not come in time. A client asks once until it gives the turn back."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._queue.append(client)
            while self._queue[0] is not client:
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    self._queue.remove(client)
                    return False
                self._changed.wait(left)
            return True

    def give(self, client: object) -> None:
        """End the client's turn; of no effect for one that has not got it."""
        with self._changed:
            if self._queue and self._queue[0] is client:
                self._queue.popleft()
                self._changed.notify_all()

    def end(self) -> None:
        """Send away who waits."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
