"""Runs a data set through a model and a float model, and counts how often and how far they differ."""

import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.importers.bindings import Bindings, Bound
from tosaic.driver.arguments import NodeArg, entering, reals
from tosaic.driver.models import Progress
from tosaic.driver.runnable import fitting
from tosaic.driver.session import Session
from tosaic.driver.source import (
    NOT_THE_NETWORK,
    Agreement,
    Limits,
    OutputAgreement,
    SourceNetwork,
    find_network,
)
from tosaic.driver.source.float_models import float_model
from tosaic.errors import InputError, MismatchError

from .counts import FLOAT, Counts, classes_of, rows_of
from .data import samples_for, take_labels

CHUNK_SAMPLES = 64
"""Samples whose outputs are held at once."""


@dataclasses.dataclass(frozen=True)
class EvaluationTerms:
    """How a model and its data are taken; see `evaluate`."""

    labels: str | None = None
    config: Any = None
    bound: Bound = None
    check: bool = False
    """The float model is the one that the integers were made of, and they are held against it."""
    limit_db: float | None = None


DEFAULT_TERMS = EvaluationTerms()


@dataclasses.dataclass
class OutputFigures:
    """Figures of one output on one target. Shares are of rows along the last axis, 0 to 1; None: nothing to
    compare with.
    """

    name: str
    target: str
    shape: tuple[int, ...]
    sqnr_db: float | None = None
    """Signal of the float model to its difference from this, decibels; infinite where they are equal."""
    largest_difference: float | None = None
    largest_steps: float | None = None
    """The same in steps of the output's encoding; None for floats."""
    beyond_one_step: float | None = None
    """Share of elements that are more than one step away."""
    agreement: float | None = None
    """Share of rows whose largest element is the float model's."""
    accuracy: float | None = None
    """Share of rows whose largest element is the label."""
    confusion: list[tuple[int, int, int]] | None = None
    """(label, largest element, rows) of what occurred, by label."""


@dataclasses.dataclass
class Evaluation:
    """Figures of a model on a data set."""

    model: str
    samples: int
    against: str | None
    """The float model, and what computed it."""
    float_accuracy: dict[str, float]
    """Accuracy of the float model by output, 0 to 1."""
    outputs: list[OutputFigures]
    seconds: dict[str, float]
    """Seconds by target, and of the float model under FLOAT."""
    problem: str | None = None
    """Why the first output that is too far from its network is, where that was asked."""

    def judge(self) -> None:
        """Raises MismatchError where an output is too far from the network that the model was made of."""
        if self.problem is not None:
            raise MismatchError(f"{NOT_THE_NETWORK}: {self.problem}")

    def as_json(self) -> dict[str, Any]:
        """Returns plain values; an infinite SQNR is the text "exact"."""
        found = dataclasses.asdict(self)
        for figures in found["outputs"]:
            if figures["sqnr_db"] == math.inf:
                figures["sqnr_db"] = "exact"
        return found


def evaluate(
    model: Any,
    data: Mapping[str, np.ndarray],
    *,
    labels: str | None = None,
    against: Any = None,
    target: str | Sequence[str] = "emulator",
    config: Any = None,
    bound: Bound = None,
    check: str | None = None,
    limit_db: float | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measures accuracy, agreement and SQNR of a model on data that it was not calibrated with.

    `model` is what `Session` takes, and runs on each `target` (the emulator takes many samples at once). `data` maps
    inputs to arrays of samples, reals or the model's own integers; `labels` names the array of class numbers among
    them (by itself "labels", if it is there). `against` is the float model: a file, a graph, or a function of a
    sample's arrays by name that returns outputs by name. `bound` binds what either model leaves open, as `shapes` of
    `Session` does. `check="source"` takes as float model the one that the integers were made of, and raises
    MismatchError where an output is too far away (`Session.run`), or below `limit_db`. Raises InputError for data
    that does not fit.
    """
    if check not in (None, "source"):
        raise InputError(f"there is no check {check!r} of an evaluation; use 'source'")
    targets = [target] if isinstance(target, str) else list(dict.fromkeys(target))
    terms = EvaluationTerms(labels, config, bound, check is not None, limit_db)
    found = evaluation_of(model, data, targets, against, terms, progress)
    found.judge()
    return found


def evaluation_of(
    model: Any,
    data: Mapping[str, np.ndarray],
    targets: Sequence[str],
    against: Any,
    terms: EvaluationTerms = DEFAULT_TERMS,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluates as `evaluate` does, but leaves it to the caller to `judge`."""
    with Judge(model, data, targets, against, terms) as judge:
        counts = Counts()
        for start in range(0, judge.samples, CHUNK_SAMPLES):
            if progress is not None:
                progress("evaluate", start, judge.samples)
            counts.join(judge.counts(start))
        if progress is not None:
            progress("evaluate", judge.samples, judge.samples)
        return judge.evaluation(counts, dict(judge.seconds))


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is compared with what: all of an evaluation that no sample changes."""

    model: str
    samples: int
    against: str | None
    """The float model, and what computed it."""
    targets: tuple[str, ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    """Name and shape of each output."""
    labelled: tuple[str, ...]
    """Outputs whose rows have labels."""
    steps: tuple[tuple[str, float], ...] = ()
    """(name, step) of outputs that integers stand for."""

    def evaluation(self, counts: Counts, seconds: dict[str, float]) -> Evaluation:
        """The figures of what was counted on all samples."""
        floats = {}
        if self.against is not None:
            floats = {
                name: own.right / own.rows for name in self.labelled for own in [counts.of(FLOAT, name)]
            }
        outputs = []
        for target in self.targets:
            for name, shape in self.outputs:
                own = counts.of(target, name)
                figures = OutputFigures(name, target, shape)
                if self.against is not None:
                    figures.sqnr_db, figures.largest_difference = own.sqnr_db, own.largest
                    step = dict(self.steps).get(name)
                    if step is not None:
                        figures.largest_steps, figures.beyond_one_step = (
                            own.largest / step,
                            own.beyond / own.elements,
                        )
                    figures.agreement = own.same / own.rows if own.rows else None
                if name in self.labelled:
                    figures.accuracy = own.right / own.rows
                    figures.confusion = own.triples()
                outputs.append(figures)
        return Evaluation(self.model, self.samples, self.against, floats, outputs, seconds)


class Judge:
    """A model on each target beside a float model, and the samples that both get. A context: it closes its sessions.

    Its parameters are those of `evaluate`.
    """

    def __init__(
        self,
        model: Any,
        data: Mapping[str, np.ndarray],
        targets: Sequence[str],
        against: Any,
        terms: EvaluationTerms,
    ):
        if not targets:
            raise InputError("there is no target to evaluate on; name one, as emulator or golden")
        own, unfit = fitting(model, terms.bound)
        name: str | None = None
        self.network: SourceNetwork | None = None
        """The float model."""
        if against is not None or terms.check:
            theirs, theirs_unfit = (
                fitting(against, terms.bound) if against is not None else (Bindings(), unfit)
            )
            if unfit is not None and theirs_unfit is not None and own == theirs:
                raise unfit
            if terms.check:
                self.network = find_network(model, against, theirs, asked_db=terms.limit_db)
            else:
                self.network = SourceNetwork(*float_model(against, theirs), Limits())
            name = self.network.name
        elif unfit is not None:
            raise unfit
        with contextlib.ExitStack() as stack:
            self._sessions = [
                stack.enter_context(Session(model, each, terms.config, shapes=own.shapes, values=own.values))
                for each in targets
            ]
            first = self._sessions[0]
            self._inputs, self._outputs = first.inputs, first.outputs
            arrays, classes = take_labels(data, terms.labels, first.inputs)
            self._samples = samples_for(first.inputs, arrays)
            self.samples = len(next(iter(self._samples.values())))
            self._labels = labels_by_output(first.outputs, self.samples, classes)
            self._open = stack.pop_all()
        self.seconds: dict[str, float] = collections.defaultdict(float)
        shapes = tuple((each.name, each.shape) for each in self._outputs)
        steps = tuple(
            (each.name, step) for each in self._outputs if (step := OutputAgreement.of(each).step) is not None
        )
        self.facts = Facts(
            first.model, self.samples, name, tuple(targets), shapes, tuple(self._labels), steps
        )
        self._judged = terms.check

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def evaluation(self, counts: Counts, seconds: dict[str, float]) -> Evaluation:
        """The figures of what was counted on all samples, and whether they will do, where that is asked."""
        found = self.facts.evaluation(counts, seconds)
        found.problem = self.problem(counts)
        return found

    def problem(self, counts: Counts, targets: Sequence[str] | None = None) -> str | None:
        """Why the first output that is too far from its network is, where that is asked."""
        if self.network is None or not self._judged:
            return None
        for target in targets or self.facts.targets:
            outputs = [counts.of(target, each.name).agreement(each) for each in self._outputs]
            agreement = Agreement(f"{self.network.name} on {target}", outputs, self.samples)
            problem = agreement.problem(self.network.limits)
            if problem is not None:
                return problem
        return None

    def counts(self, start: int) -> Counts:
        """Returns the counts of CHUNK_SAMPLES samples from number `start` on, or of as many as there are."""
        chunk = {name: values[start : start + CHUNK_SAMPLES] for name, values in self._samples.items()}
        stop = min(start + CHUNK_SAMPLES, self.samples)
        labels = {name: values[start:stop].ravel() for name, values in self._labels.items()}
        found = Counts()
        floats = self._floats(chunk)
        if floats is not None:
            for each in self._outputs:
                found.of(FLOAT, each.name).add(each, floats[each.name], None, labels.get(each.name))
        encoded = {each.name: entering(each, chunk[each.name]) for each in self._inputs}
        for session in self._sessions:
            started = time.perf_counter()
            results = session.run_batch(encoded)
            self.seconds[session.target] += time.perf_counter() - started
            for each in self._outputs:
                got = reals(each, results[each.name])
                wanted = floats[each.name] if floats is not None else None
                found.of(session.target, each.name).add(each, got, wanted, labels.get(each.name))
        return found

    def _floats(self, chunk: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The float model's outputs [samples, ...] by the names of the model's."""
        if self.network is None:
            return None
        started = time.perf_counter()
        given = {each.name: reals(each, chunk[each.name]) for each in self._inputs}
        network = self.network
        found = [
            network.outputs_for(dict(zip(given, values, strict=True)), self._outputs)
            for values in zip(*given.values(), strict=True)
        ]
        self.seconds[FLOAT] += time.perf_counter() - started
        return {each.name: np.stack([sample[each.name] for sample in found]) for each in self._outputs}


def labels_by_output(
    outputs: Sequence[NodeArg], samples: int, labels: np.ndarray | None
) -> dict[str, np.ndarray]:
    """[samples, rows] for each output that has one row for each label; InputError where none has, or where a label is
    no class of it."""
    if labels is None:
        return {}
    rows = {each.name: rows_of(each) for each in outputs if classes_of(each)}
    found = {
        name: labels.reshape(samples, -1) for name, each in rows.items() if labels.size == samples * each
    }
    if not found:
        listed = ", ".join(f"{samples * each} of output {name!r}" for name, each in rows.items()) or "none"
        raise InputError(
            f"there are {labels.size} labels, and as rows to label: {listed}; give one label for each"
        )
    for each in outputs:
        if each.name in found and labels.max(initial=0) >= classes_of(each):
            raise InputError(
                f"label {labels.max()} is no class of output {each.name!r}, which has {classes_of(each)}, from 0 on"
            )
    return found
