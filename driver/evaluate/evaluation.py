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
from tosaic.driver.arguments import NodeArg
from tosaic.driver.models import Progress
from tosaic.driver.quantize.measurement import Difference, largest_elements
from tosaic.driver.session import Session
from tosaic.errors import InputError

from .data import entering, reals, samples_for, take_labels
from .float_models import FloatModel, float_model

FLOAT = "float"
"""The float model, where targets are named."""
CHUNK_SAMPLES = 64
"""Samples whose outputs are held at once."""


@dataclasses.dataclass
class OutputFigures:
    """Of one output on one target. Shares are of rows along the last axis, 0 to 1; None: nothing to compare with."""

    name: str
    target: str
    shape: tuple[int, ...]
    sqnr_db: float | None = None
    """Signal of the float model to its difference from this, decibels; infinite where they are equal."""
    largest_difference: float | None = None
    agreement: float | None = None
    """Share of rows whose largest element is the float model's."""
    accuracy: float | None = None
    """Share of rows whose largest element is the label."""


@dataclasses.dataclass
class Evaluation:
    """What a model is worth on a data set."""

    model: str
    samples: int
    against: str | None
    """The float model, and what computed it."""
    float_accuracy: dict[str, float]
    """By output."""
    outputs: list[OutputFigures]
    seconds: dict[str, float]
    """By target, and of the float model under FLOAT."""

    def as_json(self) -> dict[str, Any]:
        """Plain values; an infinite SQNR is the text "exact"."""
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
    progress: Progress | None = None,
) -> Evaluation:
    """Accuracy, agreement and SQNR of a model on data that it was not calibrated with.

    `model` is what `Session` takes, and runs on each `target` (the emulator takes many samples at once). `data` maps
    inputs to arrays of samples, reals or the model's own integers; `labels` names the array of class numbers among
    them (by itself "labels", if it is there). `against` is the float model: a file, a graph, or a function of a
    sample's arrays by name that returns outputs by name. `bound` binds what an imported model leaves open, as `shapes`
    of `Session`. Raises InputError for data that does not fit.
    """
    targets = [target] if isinstance(target, str) else list(dict.fromkeys(target))
    if not targets:
        raise InputError("there is no target to evaluate on; name one, as emulator or golden")
    name, run_floats = float_model(against, bound) if against is not None else (None, None)
    how = Bindings.of(bound)
    with contextlib.ExitStack() as stack:
        sessions = [
            stack.enter_context(Session(model, each, config, shapes=how.shapes, values=how.values))
            for each in targets
        ]
        first = sessions[0]
        arrays, classes = take_labels(data, labels, first.inputs)
        samples = samples_for(first.inputs, arrays)
        count = len(next(iter(samples.values())))
        tally = _Tally(first, targets, labels_by_output(first.outputs, count, classes), run_floats)
        for start in range(0, count, CHUNK_SAMPLES):
            if progress is not None:
                progress("evaluate", start, count)
            chunk = {each: values[start : start + CHUNK_SAMPLES] for each, values in samples.items()}
            tally.add(sessions, chunk, start)
        if progress is not None:
            progress("evaluate", count, count)
    return Evaluation(first.model, count, name, tally.float_accuracy(), tally.figures(), dict(tally.seconds))


class _Tally:
    """Counts, chunk by chunk."""

    def __init__(
        self,
        model: Session,
        targets: list[str],
        labels: dict[str, np.ndarray],
        run_floats: FloatModel | None,
    ):
        self._inputs, self._outputs, self._labels = model.inputs, model.outputs, labels
        self._run_floats = run_floats
        self.seconds: dict[str, float] = collections.defaultdict(float)
        keys = [(target, each.name) for target in targets for each in model.outputs]
        self._differences = {key: Difference(key[1], "", "", key[1]) for key in keys}
        self._same: collections.Counter[tuple[str, str]] = collections.Counter()
        """Rows whose largest element is the float model's, by target and output."""
        self._right: collections.Counter[tuple[str, str]] = collections.Counter()
        """Rows whose largest element is the label; the float model's under the target FLOAT."""
        self._rows: collections.Counter[str] = collections.Counter()

    def add(self, sessions: list[Session], chunk: dict[str, np.ndarray], start: int) -> None:
        """Samples from number `start` on."""
        wanted = self._floats(chunk)
        encoded = {each.name: entering(each, chunk[each.name]) for each in self._inputs}
        count = len(next(iter(chunk.values())))
        labels = {name: values[start : start + count].ravel() for name, values in self._labels.items()}
        for each in self._outputs:
            if classes_of(each):
                self._rows[each.name] += count * math.prod(each.shape[:-1])
            if wanted is not None:
                self._count(FLOAT, each, wanted[each.name], None, labels)
        for session in sessions:
            started = time.perf_counter()
            results = session.run_batch(encoded)
            self.seconds[session.target] += time.perf_counter() - started
            for each in self._outputs:
                got = reals(each, results[each.name])
                own = wanted[each.name] if wanted is not None else None
                self._count(session.target, each, got, own, labels)

    def _count(
        self,
        target: str,
        output: NodeArg,
        got: np.ndarray,
        wanted: np.ndarray | None,
        labels: dict[str, np.ndarray],
    ) -> None:
        key = (target, output.name)
        if wanted is not None:
            self._differences[key].add(wanted, got)
        classes = classes_of(output)
        if not classes:
            return
        largest = largest_elements(got, classes)
        if wanted is not None:
            self._same[key] += int((largest == largest_elements(wanted, classes)).sum())
        if output.name in labels:
            self._right[key] += int((largest == labels[output.name]).sum())

    def _floats(self, chunk: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The float model's outputs [samples, ...] by the names of the model's."""
        if self._run_floats is None:
            return None
        started = time.perf_counter()
        given = {each.name: reals(each, chunk[each.name]) for each in self._inputs}
        found = [
            self._run_floats(dict(zip(given, values, strict=True)))
            for values in zip(*given.values(), strict=True)
        ]
        self.seconds[FLOAT] += time.perf_counter() - started
        return {
            each.name: np.stack([_matching(each, place, sample, len(self._outputs)) for sample in found])
            for place, each in enumerate(self._outputs)
        }

    def float_accuracy(self) -> dict[str, float]:
        if self._run_floats is None:
            return {}
        return {name: self._right[FLOAT, name] / self._rows[name] for name in self._labels}

    def figures(self) -> list[OutputFigures]:
        found = []
        for (target, name), difference in self._differences.items():
            key, rows = (target, name), self._rows[name]
            shape = next(each.shape for each in self._outputs if each.name == name)
            figures = OutputFigures(name, target, shape)
            if self._run_floats is not None:
                figures.sqnr_db, figures.largest_difference = difference.sqnr_db, difference.largest
                figures.agreement = self._same[key] / rows if rows else None
            if name in self._labels:
                figures.accuracy = self._right[key] / rows
            found.append(figures)
        return found


def _matching(output: NodeArg, place: int, sample: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """The float model's value of an output: by name, or by place where it has names of its own."""
    if output.name not in sample and len(sample) != count:
        raise InputError(
            f"the float model has no output {output.name!r}; its outputs are {', '.join(map(repr, sample))}"
        )
    value = np.asarray(sample[output.name] if output.name in sample else list(sample.values())[place])
    if value.size != math.prod(output.shape):
        raise InputError(
            f"output {output.name!r} has shape {list(output.shape)}, the float model's has {list(value.shape)}: "
            "are they the same model?"
        )
    return value.reshape(output.shape)


def classes_of(output: NodeArg) -> int:
    """Elements along the last axis, 0 where they are too few to be classes."""
    return output.shape[-1] if output.shape and output.shape[-1] >= 2 else 0


def labels_by_output(
    outputs: Sequence[NodeArg], samples: int, labels: np.ndarray | None
) -> dict[str, np.ndarray]:
    """[samples, rows] for each output that has one row for each label; InputError where none has, or where a label is
    no class of it."""
    if labels is None:
        return {}
    rows = {each.name: math.prod(each.shape[:-1]) for each in outputs if classes_of(each)}
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
