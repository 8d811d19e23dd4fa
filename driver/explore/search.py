"""The search: machines are drawn, those that do not fit are left out at once, the others compiled and their cycles
predicted by the emulator's cycle model, each as a job."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tosaic.compiler.importers.bindings import Bindings
from tosaic.driver.bench import Compiled, MemorySetting, measurement
from tosaic.driver.jobs import Executor, RecordFile, run_jobs
from tosaic.driver.models import Progress
from tosaic.errors import InputError
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.install import install_command

from .point import Area, Point
from .space import configuration, draw_grid, free_fields

GENERATION = 64
"""Machines that are judged together: enough for several processes, few enough for a search to learn."""
TRIES = 50
"""Generations in a row without a new machine that fits end the search: there are no more."""
REFUSALS = 3
"""Generations in a row of which every machine was refused by the networks end it, too: no other will take them."""


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of an exploration."""

    models: tuple[pathlib.Path, ...]
    base: str
    """The configuration whose other sizes hold."""
    fixed: tuple[str, ...]
    """Fields of `base` that are not searched."""
    bandwidths: tuple[int, ...]
    points: int
    area: Callable[[Config], Area]
    fits: Callable[[Area], bool]
    seed: int = 0
    bound: tuple[Bindings, ...] = ()
    """What is bound of each model; nothing where there are none."""
    optuna: bool = False
    """Whether Optuna proposes machines; else they are drawn from the grid."""


@dataclasses.dataclass
class Exploration:
    """What was found."""

    points: list[Point] = dataclasses.field(default_factory=list)
    refused: dict[str, str] = dataclasses.field(default_factory=dict)
    """Why, by the name of the machine: a network that does not compile for it, say."""
    too_large: int = 0
    """Machines that do not fit the part: never compiled."""


def explore(
    question: Question,
    executor: Executor,
    records: RecordFile | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Finds at least `question.points` points, or all that there are: a search ends in any case. Raises
    InputError where Optuna is wanted and missing.
    """
    found = Exploration()
    proposer = _Optuna(question) if question.optuna else _Grid(question)
    seen: set[int] = set()
    idle = refused = 0
    while len(found.points) < question.points and idle < TRIES and refused < REFUSALS:
        proposed = proposer.ask(GENERATION)
        fresh = []
        for config in proposed:
            if config.hash in seen:
                continue
            seen.add(config.hash)
            area = question.area(config)
            if question.fits(area):
                fresh.append((config, area))
            else:
                found.too_large += 1
        if not proposed:
            break
        judged = _judge(question, fresh, executor, records, found)
        idle = 0 if judged else idle + (not fresh)
        refused = 0 if judged else refused + bool(fresh)
        found.points += judged
        proposer.tell(judged)
        if progress:
            progress("explore", min(len(found.points), question.points), question.points)
    return found


def _judge(
    question: Question,
    machines: Sequence[tuple[Config, Area]],
    executor: Executor,
    records: RecordFile | None,
    found: Exploration,
) -> list[Point]:
    """Points of machines on which every network runs."""
    places = [
        (config, area, bandwidth)
        for config, area in machines
        for bandwidth in question.bandwidths
        if bandwidth <= config.bus_bytes
    ]
    bound = question.bound or (None,) * len(question.models)
    jobs = [
        measurement(model, "emulator", config.name, MemorySetting(bandwidth), Compiled(bound=own))
        for config, _, bandwidth in places
        for model, own in zip(question.models, bound, strict=True)
    ]
    answers = iter(run_jobs(jobs, executor, records))
    points = []
    for config, area, bandwidth in places:
        own = [next(answers) for _ in question.models]
        failures = [each.failure for each in own if each.failure is not None]
        if failures:
            found.refused[config.name] = failures[0]
            continue
        cycles = {str(model): each.result["cycles"] for model, each in zip(question.models, own, strict=True)}
        points.append(Point(config, bandwidth, area, cycles))
    return points


class _Grid:
    """The grid in a random order."""

    def __init__(self, question: Question):
        self._machines: Iterator[Config] = draw_grid(question.base, question.fixed, question.seed)

    def ask(self, count: int) -> list[Config]:
        return [config for _, config in zip(range(count), self._machines, strict=False)]

    def tell(self, points: Sequence[Point]) -> None:
        """A grid does not learn."""


class _Optuna:
    """Optuna's NSGA-II: fewer cycles and fewer LUTs at once."""

    def __init__(self, question: Question):
        try:
            import optuna
        except ImportError:
            raise InputError(
                f"the search by Optuna needs it: {install_command('explore')}, or give --search grid"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._base = get_config(question.base)
        self._fields = {
            field: optuna.distributions.CategoricalDistribution(sizes)
            for field, sizes in free_fields(question.fixed).items()
        }
        self._failed = optuna.trial.TrialState.FAIL
        sampler = optuna.samplers.NSGAIISampler(population_size=GENERATION, seed=question.seed)
        self._study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
        self._asked: list[tuple[Any, Config | None]] = []

    def ask(self, count: int) -> list[Config]:
        self._asked = []
        for _ in range(count):
            trial = self._study.ask(dict(self._fields))
            self._asked.append((trial, configuration(self._base, trial.params)))
        return [config for _, config in self._asked if config is not None]

    def tell(self, points: Sequence[Point]) -> None:
        best: dict[int, Point] = {}
        for each in points:
            known = best.setdefault(each.config.hash, each)
            if each.score < known.score:
                best[each.config.hash] = each
        for trial, config in self._asked:
            point = best.get(config.hash) if config is not None else None
            if point is None:
                self._study.tell(trial, state=self._failed)
            else:
                self._study.tell(trial, [math.log(point.score), math.log(point.area.lut)])


__all__ = ["Exploration", "Point", "Question", "explore"]
