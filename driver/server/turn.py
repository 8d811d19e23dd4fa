"""Whose turn it is."""

import threading
import time
from collections.abc import Callable, Hashable

LOOK_SECONDS = 0.2
"""How often who waits is looked at: whether he is still there."""
_REMEMBERED = 1024
"""Groups whose last turn is known while nobody of them waits."""


def _stays() -> bool:
    return False


class ClientTurn:
    """One client at a time has the device. Groups of clients take turns, the one that had none for longest first.

    Within a group it goes in the order in which they asked. So a group waits for one turn of each other at most,
    however many of its clients wait.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: object = None
        self._waiting: dict[object, Hashable] = {}
        """The group of each client that waits, in the order of asking."""
        self._had: dict[Hashable, None] = {}
        """Groups that had a turn, the one that had none for longest first."""
        self._ended = False

    def take(
        self, client: object, seconds: float, group: Hashable = None, gone: Callable[[], bool] = _stays
    ) -> bool:
        """Wait for the turn; False when it did not come in time. A client asks once until it gives the turn back.

        One that is `gone` while it waits loses its place.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self._waiting[client] = group
            try:
                while self._holder is not None or self._next() is not client:
                    left = deadline - time.monotonic()
                    if self._ended or left <= 0 or gone():
                        return False
                    self._changed.wait(min(left, LOOK_SECONDS))
                if gone():
                    return False
                self._holder = client
                self._had.pop(group, None)
                self._had[group] = None
                if len(self._had) > _REMEMBERED:
                    del self._had[next(iter(self._had))]
                return True
            finally:
                del self._waiting[client]
                self._changed.notify_all()

    def give(self, client: object) -> None:
        """End the client's turn; of no effect for one that has not got it."""
        with self._changed:
            if self._holder is client:
                self._holder = None
                self._changed.notify_all()

    def end(self) -> None:
        """Send away who waits."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _next(self) -> object:
        """Returns the next of those who wait: the first of the group that had no turn for longest."""
        last = {group: number for number, group in enumerate(self._had)}
        return min(self._waiting, key=lambda client: last.get(self._waiting[client], -1))
