"""Warnings on samples that limit a quantization: too few of them, or one that sets a range alone."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from tosaic.compiler.ir import Graph
from tosaic.errors import ModelWarning

from .samples import Samples

FEW_SAMPLES = 16
"""Samples below which ranges are those of chance: 4 samples gave a face detector 9 dB, 32 samples 26 dB."""
ALONE = 2.0
"""A sample that makes a range this many times as wide costs all others a bit."""
_SEVERAL = 8
"""Samples that it takes to call one odd."""


@dataclasses.dataclass
class _Range:
    """The two least and the two largest extremes of any sample, and whose the outermost are; 0 is inside."""

    low: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    high: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    lowest: int = -1
    highest: int = -1

    def add(self, sample: int, least: float, most: float) -> None:
        if least < self.low[0]:
            self.low, self.lowest = [least, self.low[0]], sample
        else:
            self.low[1] = min(self.low[1], least)
        if most > self.high[0]:
            self.high, self.highest = [most, self.high[0]], sample
        else:
            self.high[1] = max(self.high[1], most)

    def without(self, sample: int) -> float:
        """How wide the range is without a sample."""
        return self.high[self.highest == sample] - self.low[self.lowest == sample]


class Extremes:
    """Which sample makes the range of which tensor."""

    def __init__(self) -> None:
        self._ranges: dict[str, _Range] = {}
        self._samples = 0

    def observe(self, values: Mapping[str, np.ndarray]) -> None:
        """One sample: arrays by tensor."""
        for name, value in values.items():
            if value.dtype.kind == "f" and value.size:
                finite = value if np.all(np.isfinite(value)) else value[np.isfinite(value)]
                if finite.size:
                    found = self._ranges.setdefault(name, _Range())
                    found.add(self._samples, float(finite.min()), float(finite.max()))
        self._samples += 1

    def alone(self) -> dict[str, tuple[int, float]]:
        """Returns, for each tensor that one sample makes ALONE times as wide or more, the sample and how many times."""
        found = {}
        for name, each in self._ranges.items() if self._samples >= _SEVERAL else ():
            whole = each.high[0] - each.low[0]
            for sample in {each.lowest, each.highest} - {-1}:
                rest = each.without(sample)
                if rest > 0 and whole >= ALONE * rest:
                    found[name] = sample, whole / rest
        return found


def warn_of_samples(
    graph: Graph, samples: Samples, extremes: Extremes, numbers: Sequence[int] | None = None
) -> None:
    """ModelWarning where ranges hang on too few samples, or on one alone; `numbers` are what its owner calls samples by
    their places."""
    shapes = [graph.tensors[name].shape for name in samples[0]]
    count = len(samples) * min((shape[0] for shape in shapes if shape), default=1)
    if count < FEW_SAMPLES:
        _warn(
            f"the ranges are those of {count} calibration sample{'s' * (count > 1)}: give {FEW_SAMPLES} or more, such "
            "as the model will see"
        )
    alone = extremes.alone()
    if not alone:
        return
    # What enters explains what is computed from it.
    name = next((name for name in graph.inputs if name in alone), next(iter(alone)))
    sample, times = alone[name]
    kind = "input" if name in graph.inputs else "tensor"
    _warn(
        f"calibration sample {sample if numbers is None else numbers[sample]} alone makes the range of {kind} {name!r} "
        f"{times:.3g} times as wide as all others do, and the steps of its integers as coarse: leave it out unless the "
        "model will see such values"
    )


def _warn(text: str) -> None:
    warnings.warn(text, ModelWarning, stacklevel=4)
