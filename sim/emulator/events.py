"""A small discrete-event kernel: processes are generators that yield what they wait for."""

import heapq
import itertools
from collections.abc import Generator
from typing import Any


class Event:
    """Something processes wait for; they check what they need again after every notification."""

    def __init__(self, timeline: "Timeline"):
        self._timeline = timeline
        self._waiting: list[Process] = []

    def notify(self) -> None:
        """Resume every process that waits, at the present time."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        timeline = self._timeline
        for process in waiting:
            heapq.heappush(timeline.events, (timeline.now, next(timeline.order), process))

    def add(self, process: "Process") -> None:
        """Let `process` wait."""
        self._waiting.append(process)


Process = Generator[int | Event, None, Any]
"""Yields the cycle to continue at (not before now), or the condition to wait for."""


class Timeline:
    """Runs processes in the order of time."""

    def __init__(self) -> None:
        self.now = 0
        self.order = itertools.count()
        self.events: list[tuple[int, int, Process]] = []
        """A heap of (cycle, place among those of this cycle, who goes on)."""

    def resume_at(self, time: int, process: Process) -> None:
        """Start or continue `process` at cycle `time`."""
        heapq.heappush(self.events, (time, next(self.order), process))

    def run(self) -> None:
        """Runs until nothing can happen any more."""
        events, order, take, put = self.events, self.order, heapq.heappop, heapq.heappush
        while events:
            time, _, process = take(events)
            self.now = time
            for waited in process:
                if isinstance(waited, Event):
                    waited.add(process)
                    break
                if waited > time:
                    if events and events[0][0] <= waited:
                        put(events, (waited, next(order), process))
                        break
                    # Nobody else does anything before it goes on.
                    self.now = time = waited
