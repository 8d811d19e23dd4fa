"""The verdict on one test."""

import dataclasses
import enum

from .case import ConformanceCase


class Verdict(enum.Enum):
    """What came of a test; only `PASS` is success."""

    PASS = "pass"
    MISMATCH = "mismatch"
    """An output differs from what the reference model computed."""
    REJECTED = "rejected"
    """The target does not support the graph (UnsupportedError)."""
    ACCEPTED = "accepted"
    """An illegal graph was not rejected."""
    ERROR = "error"
    """Anything else: a legal graph called illegal, a device fault, a crash, out of time."""


@dataclasses.dataclass(frozen=True)
class Result:
    """A test with its verdict; `reason` is one line, empty for a positive test that passed."""

    case: ConformanceCase
    verdict: Verdict
    reason: str
    seconds: float

    def fails(self, *, allow_unsupported: bool) -> bool:
        """Whether the suite as a whole fails by this test; `allow_unsupported` excuses legal graphs only."""
        excused = allow_unsupported and self.verdict is Verdict.REJECTED and not self.case.negative
        return self.verdict is not Verdict.PASS and not excused
