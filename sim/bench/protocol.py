"""Rules of AXI4 and AXI4-Lite that the accelerator has to keep, checked on what its ports did, cycle by cycle.

Plain Python on plain values: `monitor.py` takes the samples. A rule's number is that of the clause of AMBA AXI
(IHI 0022H) it is from.
"""

import collections
import dataclasses

BOUNDARY_BYTES = 4096
INCR = 1


@dataclasses.dataclass(frozen=True)
class AcceptedBurst:
    """An address that was taken."""

    address: int
    beats: int
    bytes_per_beat: int
    kind: int


class Violations:
    """What was broken, with the cycle."""

    def __init__(self) -> None:
        self.cycle = 0
        self.found: list[str] = []

    def add(self, text: str) -> None:
        self.found.append(f"cycle {self.cycle}: {text}")


class Handshake:
    """One channel that the accelerator is the source of: valid and payload stay until ready (A3.2.1)."""

    def __init__(self, name: str, violations: Violations):
        self._name, self._violations = name, violations
        self._offered: tuple[int, ...] | None = None
        self.transfers = 0

    def step(self, valid: bool, ready: bool, payload: tuple[int, ...]) -> bool:
        """One cycle; True when a transfer took place. `payload` counts only with `valid`."""
        if self._offered is not None:
            if not valid:
                self._violations.add(f"{self._name}valid fell before {self._name}ready")
            elif payload != self._offered:
                self._violations.add(
                    f"{self._name} changed from {self._offered} to {payload} before {self._name}ready"
                )
        self._offered = payload if valid and not ready else None
        taken = valid and ready
        self.transfers += taken
        return taken


def check_burst(channel: str, burst: AcceptedBurst, bus_bytes: int, violations: Violations) -> None:
    """Checks for INCR bursts of whole beats (our bus's contract) that stay in their 4 KiB (A3.4.1)."""
    if burst.kind != INCR:
        violations.add(f"{channel}burst is {burst.kind}, not INCR")
    if burst.bytes_per_beat != bus_bytes:
        violations.add(f"{channel}size says {burst.bytes_per_beat} bytes on a bus of {bus_bytes}")
    if burst.address % bus_bytes:
        violations.add(f"{channel}addr 0x{burst.address:08x} is not a multiple of {bus_bytes}")
    last = burst.address // bus_bytes * bus_bytes + burst.beats * bus_bytes - 1
    if burst.address // BOUNDARY_BYTES != last // BOUNDARY_BYTES:
        violations.add(f"{burst.beats} beats from {channel}addr 0x{burst.address:08x} cross a 4 KiB boundary")


class WriteBursts:
    """Write data against write addresses: WLAST on the last beat and only there, one response per burst (A3.4.1).

    Data may come before its address.
    """

    def __init__(self, violations: Violations):
        self._violations = violations
        self._lengths: collections.deque[int] = collections.deque()
        self._beats = 0
        self._early: collections.deque[int] = collections.deque()
        self._unanswered = 0

    def address(self, burst: AcceptedBurst) -> None:
        self._lengths.append(burst.beats)
        self._match()

    def data(self, last: bool) -> None:
        self._beats += 1
        if last:
            self._early.append(self._beats)
            self._beats = 0
        self._match()

    def response(self) -> None:
        """A response was taken."""
        if not self._unanswered:
            self._violations.add("a write response without a complete burst")
        else:
            self._unanswered -= 1

    def _match(self) -> None:
        while self._early and self._lengths:
            beats, wanted = self._early.popleft(), self._lengths.popleft()
            if beats != wanted:
                self._violations.add(f"wlast on beat {beats} of a burst of {wanted}")
            self._unanswered += 1
        if self._lengths and self._beats >= self._lengths[0]:
            self._violations.add(f"no wlast on beat {self._beats} of a burst of {self._lengths[0]}")

    def check_idle(self) -> None:
        """Checks that nothing is left open after a run."""
        if self._lengths or self._early or self._beats or self._unanswered:
            self._violations.add(
                f"the run ended with write bursts under way: {len(self._lengths)} wait for data, "
                f"{len(self._early) + bool(self._beats)} for an address, {self._unanswered} for a response"
            )


class ReadBursts:
    """Read data against read addresses, per ID: nothing is left when the machine says it is idle (A3.4.1)."""

    def __init__(self, violations: Violations):
        self._violations = violations
        self._open: dict[int, int] = collections.Counter()

    def address(self, identifier: int, beats: int) -> None:
        self._open[identifier] += beats

    def data(self, identifier: int) -> None:
        self._open[identifier] -= 1

    def check_idle(self) -> None:
        for identifier, beats in self._open.items():
            if beats:
                self._violations.add(f"the run ended with {beats} read beats of ID {identifier} under way")
