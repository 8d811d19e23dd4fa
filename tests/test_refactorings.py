"""The changes of bench/refactorings.py keep what a module computes."""

import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

from refactoring_kinds import KINDS  # noqa: E402 (the path comes first)

MODULE = '''"""A module."""

LIMIT = 7


class Scale:
    """A factor, and what it is used on."""

    def __init__(self, factor: int):
        self.factor, self.seen = factor, []

    def of(self, values: list[int], *, shift: int = 0) -> list[int]:
        """The values, scaled."""
        first = min(self.factor + shift, self.factor * LIMIT)
        self._note(values)
        total = first
        found = []
        for value in values:
            total += value
            found.append(_limited(total) * first)
        return [*found, sum(found) + len(found) * shift]

    def _note(self, values: list[int]) -> None:
        self.seen += values


def _limited(value: int) -> int:
    """At most the limit."""
    return value if value < LIMIT else LIMIT


TABLE = Scale(3).of([1, 2, 3, -9], shift=2)
'''


def results(source: str) -> list[object]:
    space: dict[str, object] = {}
    exec(compile(source, "module", "exec"), space)  # noqa: S102 (it is the text above)
    scale = space["Scale"](5)  # type: ignore[operator]
    return [space["TABLE"], scale.of([4, -2, 30]), scale.of([], shift=-3), scale.seen]


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_keeps_the_results(kind: str) -> None:
    places = list(KINDS[kind](MODULE))
    assert places
    for place in places:
        changed = place.apply()
        assert changed != MODULE
        assert results(changed) == results(MODULE), place.what


@pytest.mark.parametrize(
    "body",
    [
        "    yield values[0] + values[1] * 2",
        "    return [(y := value) + y * 2 for value in values]",
        "    warnings.warn('so', stacklevel=2)\n    return values[0] + values[1] * 2 + len(super().values)",
    ],
)
def test_what_depends_on_where_it_stands_stays(body: str) -> None:
    source = f"def found(values):\n{body}\n"
    assert list(KINDS["extract a helper"](source)) == list(KINDS["split a function"](source)) == []
