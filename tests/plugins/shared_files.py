"""The folder `shared`, which is not part of the repository: networks and cases that some tests read."""

import os
import pathlib

import pytest

SHARED = pathlib.Path(os.environ.get("TOSAIC_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared"))
ABSENT = (
    "needs the folder `shared` beside the checkout, or at TOSAIC_SHARED: docs/testing.md tells how to get it"
)
"""Why a test is skipped whose file of it is missing."""


def found(values, arguments=1):
    """The parameters of a test, one for each file that was found: a skipped one where there is none."""
    return list(values) or [
        pytest.param(*[None] * arguments, marks=pytest.mark.skip(reason=ABSENT), id="absent")
    ]


def present(path):
    """The path; skips the test where there is nothing."""
    if not path.exists():
        pytest.skip(ABSENT)
    return path
