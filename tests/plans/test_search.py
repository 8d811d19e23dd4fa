"""In which order plans come: residencies, cascades, and those that are asked for where fields overflow."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import tosaic.compiler.search as search
from tosaic.compiler.ir import Graph
from tosaic.compiler.place.arena import OutOfMemory
from tosaic.compiler.search import RESIDENCY, Choices, Task, plans_of
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config

Chain = tuple[int, int]


class Plans:
    """Cycles by residency, or by chains of cascades; None where a plan does not fit. `crowded` are the residencies in
    which something lacks room."""

    def __init__(self, patch: pytest.MonkeyPatch, cycles: Sequence[int | None], *, crowded: int = 5):
        self.cycles = dict(zip(RESIDENCY, cycles, strict=True))
        self.crowded = RESIDENCY[:crowded]
        self.cascades: dict[tuple[Chain, ...], int | None] = {}
        self.proposed: list[Chain] = []
        self.kept: dict[tuple[Chain, ...], list[Chain]] = {}
        self.asked: list[tuple[float, tuple[Chain, ...]]] = []
        patch.setattr(search, "_plan", self._plan)
        patch.setattr(search, "propose", lambda main, config, speed: self.proposed)
        patch.setattr(search, "worthwhile", lambda main, plain, config, speed: self.kept[main.chains])

    def _plan(self, task: Task, residency: float, chains: Sequence[Chain] = ()) -> Any:
        self.asked.append((residency, tuple(chains)))
        cycles = self.cascades[tuple(chains)] if chains else self.cycles[residency]
        if cycles is None:
            raise OutOfMemory(f"nothing fits {residency}")
        memories = SimpleNamespace(crowded=residency in self.crowded)
        main = SimpleNamespace(chains=tuple(chains))
        return SimpleNamespace(cycles=cycles, residency=residency, memories=memories, main=main)

    def found(self, **choices: Any) -> list[tuple[int, float]]:
        task = Task(Graph("empty"), set(), Choices(get_config("base"), **choices))
        return [(plan.cycles, plan.residency) for plan in plans_of(task)]


def test_plans_of_all_residencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are clearly better come first; the others in their order."""
    plans = Plans(monkeypatch, [1000, 950, 800, 801, 600])
    assert plans.found() == [(600, 0.0), (800, 0.25), (1000, 0.75), (950, 0.5), (801, 0.125)]
    assert [residency for residency, _ in plans.asked] == list(RESIDENCY)


def test_with_less_residency_nothing_is_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans behind one in which everything has room are made where they are asked for."""
    plans = Plans(monkeypatch, [1000, 100, 100, None, 100], crowded=0)
    task = Task(Graph("empty"), set(), Choices(get_config("base")))
    found = plans_of(task)
    assert next(found).cycles == 1000
    assert len(plans.asked) == 1
    assert [plan.residency for plan in found] == [0.5, 0.25, 0.0]
    plans = Plans(monkeypatch, [1000, 500, 1, 1, 1], crowded=1)
    assert next(plans_of(task)).residency == 0.5
    assert len(plans.asked) == 2


def test_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    Plans(monkeypatch, [None, 70, None, 70, None])
    task = Task(Graph("empty"), set(), Choices(get_config("base")))
    found = plans_of(task)
    assert [next(found).residency, next(found).residency] == [0.5, 0.125]
    more = "^nothing fits 0.0; use a configuration with more activation memory than 'base'$"
    with pytest.raises(UnsupportedError, match=more):
        next(found)
    Plans(monkeypatch, [None] * 5)
    with pytest.raises(UnsupportedError, match=more):
        next(plans_of(task))


def cascaded(patch: pytest.MonkeyPatch, **cycles: int | None) -> Plans:
    """A plan of 1000 cycles for which cascades ab, bc and so on are known."""
    plans = Plans(patch, [1000] * 5, crowded=0)
    plans.cascades = {chains(name): value for name, value in cycles.items()}
    return plans


def chains(name: str) -> tuple[Chain, ...]:
    """ "ab_de" as ((0, 1), (3, 4))."""
    return tuple((ord(each[0]) - ord("a"), ord(each[-1]) - ord("a")) for each in name.split("_"))


def test_cascades_that_are_all_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = cascaded(monkeypatch, ab_de=900)
    plans.proposed = list(chains("ab_de"))
    plans.kept = {chains("ab_de"): list(chains("ab_de"))}
    assert plans.found()[:2] == [(900, 0.75), (1000, 0.75)]
    assert plans.asked[:2] == [(0.75, ()), (0.75, chains("ab_de"))]
    assert len(plans.asked) == 2 + 4


def test_cascades_that_are_not_worth_it_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until those are left that are, and the best plan on the way counts."""
    plans = cascaded(monkeypatch, ab_de_gh=1100, ab_de=800, de=850)
    plans.proposed = list(chains("ab_de_gh"))
    plans.kept = {
        chains("ab_de_gh"): list(chains("ab_de")),
        chains("ab_de"): list(chains("de")),
        chains("de"): [],
    }
    assert plans.found()[:2] == [(800, 0.75), (1000, 0.75)]
    assert [each for _, each in plans.asked[1:4]] == [chains("ab_de_gh"), chains("ab_de"), chains("de")]


@pytest.mark.parametrize("cycles", [1000, 1001, None])
def test_a_plan_without_cascades_stays(cycles: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they save nothing, or do not fit."""
    plans = cascaded(monkeypatch, ab=cycles)
    plans.proposed = list(chains("ab"))
    plans.kept = {chains("ab"): []}
    assert plans.found()[:1] == [(1000, 0.75)]
    assert plans.asked[1] == (0.75, chains("ab"))
    assert len(plans.found()) == 5


def test_a_smaller_cascade_that_does_not_fit_leaves_the_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = cascaded(monkeypatch, ab_de=900, de=None)
    plans.proposed = list(chains("ab_de"))
    plans.kept = {chains("ab_de"): list(chains("de"))}
    assert plans.found()[0] == (900, 0.75)


@pytest.mark.parametrize("options", [dict(optimize=False), dict(cascades=False)])
def test_without_cascades(options: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    plans = cascaded(monkeypatch, ab=1)
    plans.proposed = list(chains("ab"))
    assert plans.found(**options)[0] == (1000, 0.75)
    assert all(not each for _, each in plans.asked)
