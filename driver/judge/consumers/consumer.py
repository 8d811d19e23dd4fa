"""What a consumer is: whoever computes the outputs of a graph."""

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from tosaic.errors import InputError

from ..case import TOSA, JudgeCase

Outputs = Mapping[str, np.ndarray]


class Consumer(Protocol):
    """Computes graphs. What it is asked runs apart from the judge: it may crash, or never end."""

    name: str
    form: str
    """The form of a network that it reads: `tosa`, or one of `case.FORMS`."""

    def version(self) -> str:
        """What is installed, in words: its records belong to it. InputError where it is missing, with the way out."""

    # A consumer may also have `steps(case, folder)`: lines for a report that show a case without Tosaic.

    def run(self, case: JudgeCase, limit_seconds: float) -> Outputs:
        """The outputs by the graph's names. Raises Refusal, Crash or OutOfTime."""


Make = Callable[[str], Consumer]
"""Makes a consumer of what stands behind its name and a colon."""
MADE: dict[str, Make] = {}


def consumer(name: str) -> Callable[[Make], Make]:
    """Register what makes a consumer."""

    def register(make: Make) -> Make:
        MADE[name] = make
        return make

    return register


def consumer_of(text: str) -> Consumer:
    """The consumer that a text names, as "iree" or "cmd:PROGRAM". InputError where there is none."""
    name, _, rest = text.partition(":")
    if name not in MADE or (bool(rest) != (name == "cmd")):
        known = ", ".join("cmd:PROGRAM" if each == "cmd" else each for each in sorted(MADE))
        raise InputError(f"there is no consumer {text!r}; use {known}")
    return MADE[name](rest)


def scratch() -> tempfile.TemporaryDirectory:
    """A folder for one case."""
    return tempfile.TemporaryDirectory(prefix="tosaic-judge-")


def placed(case: JudgeCase, folder: str) -> pathlib.Path:
    """The folder with the case's files."""
    place = pathlib.Path(folder)
    case.save(place)
    return place


__all__ = ["MADE", "TOSA", "Consumer", "Outputs", "consumer", "consumer_of", "placed", "scratch"]
