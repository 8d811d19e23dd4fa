"""What is counted while samples run: plain sums, so that those of several parts of a data set add up to the whole."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tosaic.driver.arguments import NodeArg
from tosaic.driver.quantize.measurement import Difference, largest_elements
from tosaic.driver.source.agreement import OutputAgreement

FLOAT = "float"
"""The float model, where targets are named."""


@dataclasses.dataclass
class OutputCounts:
    """Counts of one output on one target, against the float model's where there is one, and against labels
    where there are.
    """

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    elements: int = 0
    beyond: int = 0
    """Elements more than one step of the output's encoding away from the float model's."""
    rows: int = 0
    """Rows that have a largest element."""
    same: int = 0
    """Rows whose largest element is the float model's."""
    right: int = 0
    """Rows whose largest element is the label."""
    pairs: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    """Rows by (label, largest element)."""

    def add(
        self, output: NodeArg, got: np.ndarray, wanted: np.ndarray | None, labels: np.ndarray | None
    ) -> None:
        """Samples of reals [samples, ...]; `labels` has one class for each row."""
        if wanted is not None:
            found = OutputAgreement.of(output)
            found.add(wanted, got)
            difference = found.difference
            self.signal += difference.signal
            self.noise += difference.noise
            self.largest = max(self.largest, difference.largest)
            self.elements += found.elements
            self.beyond += found.beyond
        classes = classes_of(output)
        if not classes:
            return
        largest = largest_elements(got, classes)
        self.rows += largest.size
        if wanted is not None:
            self.same += int((largest == largest_elements(wanted, classes)).sum())
        if labels is not None:
            self.right += int((largest == labels).sum())
            self._count(labels, largest)

    def join(self, other: "OutputCounts") -> None:
        """Adds what was counted on other samples."""
        self.signal += other.signal
        self.noise += other.noise
        self.largest = max(self.largest, other.largest)
        self.elements += other.elements
        self.beyond += other.beyond
        self.rows += other.rows
        self.same += other.same
        self.right += other.right
        for pair, rows in other.pairs.items():
            self.pairs[pair] = self.pairs.get(pair, 0) + rows

    def _count(self, labels: np.ndarray, largest: np.ndarray) -> None:
        pairs, rows = np.unique(np.stack([labels, largest.ravel()]), axis=1, return_counts=True)
        for label, found, count in zip(*pairs.tolist(), rows.tolist(), strict=True):
            self.pairs[label, found] = self.pairs.get((label, found), 0) + count

    def agreement(self, output: NodeArg) -> OutputAgreement:
        """The same figures, to be judged."""
        found = OutputAgreement.of(output)
        found.difference = Difference("", "", "", "", self.signal, self.noise, self.largest)
        found.elements, found.beyond = self.elements, self.beyond
        return found

    def triples(self) -> list[tuple[int, int, int]]:
        """(label, largest element, rows) of the pairs that occurred, by label."""
        return [(*pair, rows) for pair, rows in sorted(self.pairs.items())]

    @property
    def sqnr_db(self) -> float:
        """Decibels; infinite without noise."""
        return Difference("", "", "", "", self.signal, self.noise).sqnr_db


class Counts:
    """`OutputCounts` by (target, output)."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], OutputCounts] = {}

    def of(self, target: str, output: str) -> OutputCounts:
        return self._counts.setdefault((target, output), OutputCounts())

    def join(self, other: "Counts") -> None:
        """Adds what was counted on other samples."""
        for (target, output), counts in other._counts.items():
            self.of(target, output).join(counts)

    def as_json(self) -> list[dict[str, Any]]:
        """Plain values, that `of_json` reads."""
        return [
            {"target": target, "output": output, **dataclasses.asdict(counts), "pairs": counts.triples()}
            for (target, output), counts in self._counts.items()
        ]

    @staticmethod
    def of_json(values: list[Mapping[str, Any]]) -> "Counts":
        found = Counts()
        for each in values:
            rest = dict(each)
            key = rest.pop("target"), rest.pop("output")
            pairs = {(label, largest): rows for label, largest, rows in rest.pop("pairs")}
            found._counts[key] = OutputCounts(**rest, pairs=pairs)
        return found


def classes_of(output: NodeArg) -> int:
    """Elements along the last axis, 0 where they are too few to be classes."""
    return output.shape[-1] if output.shape and output.shape[-1] >= 2 else 0


def rows_of(output: NodeArg) -> int:
    """Rows of one sample, each of which has a largest element."""
    return math.prod(output.shape[:-1]) if classes_of(output) else 0
