"""Parameters of which a few run for every change, and the others in the nightly."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any], count: int) -> list[Any]:
    """`count` of the values for every change, the others for the nightly run. A tuple is of several names."""
    listed = list(values)
    others = [value if isinstance(value, tuple) else (value,) for value in listed[count:]]
    return [*listed[:count], *(pytest.param(*each, marks=pytest.mark.nightly) for each in others)]
