"""What comes of a case: a verdict, and where it differs the first element that does."""

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.compiler.ir import DType

from .case import JudgeCase


class JudgeVerdict(enum.Enum):
    """What a consumer made of a graph."""

    EXACT = "exact"
    NEAR = "one step apart"
    """A difference of rounding, by at most one: of a network in another form, whose scales are floats."""
    DIFFERS = "differs"
    REFUSED = "refused"
    """It says that it cannot: never a wrong result."""
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    OPEN = "not judged"
    """TOSA leaves the result open, or golden does not compute it."""
    FAILED = "failed"
    """The judge did not come to its end."""


class Refusal(Exception):
    """A consumer says that it does not take the graph, and why."""


class Undefined(Exception):
    """A consumer shows that TOSA leaves the result open."""


class Crash(Exception):
    """A consumer died, or ended without its outputs."""


class OutOfTime(Exception):
    """A consumer takes longer than it may."""


VERDICTS = {
    Refusal: JudgeVerdict.REFUSED,
    Undefined: JudgeVerdict.OPEN,
    Crash: JudgeVerdict.CRASHED,
    OutOfTime: JudgeVerdict.TIMED_OUT,
}


@dataclasses.dataclass(frozen=True)
class JudgeOutcome:
    """A verdict; `reason` is one line, empty where the outputs are golden's."""

    verdict: JudgeVerdict
    reason: str = ""
    largest: int = 0
    """The largest difference of an element from golden's."""
    output: str = ""
    """The first output that differs."""

    @property
    def kind(self) -> str:
        """The verdict and the reason without what differs from graph to graph."""
        return (
            f"{self.verdict.value}: {general(self.reason)}"
            if self.verdict is not JudgeVerdict.DIFFERS
            else "differs"
        )

    def plain(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "verdict": self.verdict.value}

    @staticmethod
    def of_plain(found: Mapping[str, Any]) -> "JudgeOutcome":
        return JudgeOutcome(**{**found, "verdict": JudgeVerdict(found["verdict"])})


SHOWN = 300
"""Characters of a reason."""


def failed(error: Exception) -> JudgeOutcome:
    """The outcome of one of the exceptions of VERDICTS."""
    return JudgeOutcome(VERDICTS[type(error)], " ".join(str(error).split())[:SHOWN])


def compared(
    case: JudgeCase,
    outputs: Mapping[str, np.ndarray],
    golden: Mapping[str, np.ndarray],
    *,
    near: bool = False,
) -> JudgeOutcome:
    """Compare outputs by name with golden's, as integers: a consumer may hold them in a wider type. `near` tells what
    differs by one from what differs by more."""
    problems = []
    for name in case.graph.outputs:
        got, wanted = np.asarray(outputs[name]), golden[name]
        if got.dtype.kind not in "biu" or got.shape != wanted.shape:
            reason = f"output {name!r} is {got.dtype}{list(got.shape)}, golden's {wanted.dtype}{list(wanted.shape)}"
            return JudgeOutcome(JudgeVerdict.DIFFERS, reason, 0, name)
        got = _as_held(got, case.graph.tensors[name].dtype, wanted.dtype)
        wrong, largest = _differences(got, wanted)
        if len(wrong):
            where = tuple(int(index) for index in wrong[0])
            reason = (
                f"output {name!r} differs at {list(where)}: got {int(got[where])}, golden {int(wanted[where])} "
                f"({len(wrong)} of {wanted.size} elements differ, by at most {largest})"
            )
            problems.append(JudgeOutcome(JudgeVerdict.DIFFERS, reason, largest, name))
    if not problems:
        return JudgeOutcome(JudgeVerdict.EXACT)
    found = dataclasses.replace(problems[0], largest=max(each.largest for each in problems))
    return dataclasses.replace(found, verdict=JudgeVerdict.NEAR) if near and found.largest == 1 else found


def _as_held(got: np.ndarray, dtype: DType, held: np.dtype) -> np.ndarray:
    """Elements as golden holds them: unsigned ones by their bits; what stands above the 48 bits of an int48 in 64 is
    nobody's."""
    if got.dtype.itemsize == held.itemsize:
        got = np.ascontiguousarray(got).view(held).reshape(got.shape)
    return (got << 16) >> 16 if dtype is DType.INT48 and got.dtype.itemsize == 8 else got


def _differences(got: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, int]:
    """Where arrays differ, and by how much."""
    wide, right = got.astype(np.int64), wanted.astype(np.int64)
    wrong = np.argwhere(wide != right)
    # Of int64 a difference may be beyond int64.
    apart = [abs(int(wide[tuple(each)]) - int(right[tuple(each)])) for each in wrong]
    return wrong, max(apart, default=0)


def general(reason: str) -> str:
    """A reason without names, paths and numbers."""
    reason = re.sub(r"'[^']*'|\"[^\"]*\"", "…", reason)
    reason = re.sub(r"\S*/\S+", "…", reason)
    reason = re.sub(r"\b\d+(x\d+)*x(?=[a-z])", "Nx", reason)
    return re.sub(r"(?<![A-Za-z])-?\d[\d,.]*", "N", reason)
