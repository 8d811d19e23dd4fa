"""A float graph that was calibrated, and the integers that are made of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.quantizer import (
    Covariances,
    Curves,
    Finer,
    Plan,
    Quantized,
    ScaleError,
    Statistics,
    behind_curves,
    bent_name,
    rewrite,
    with_curves,
)
from tosaic.compiler.quantizer.plan import Forced
from tosaic.errors import InputError

from .samples import Samples

Progress = Callable[[str, int, int], None]
"""Told (what, done, total) while long work goes on."""
ACTIVATIONS = {"int8": DType.INT8, "int16": DType.INT16}
WEIGHTS = ("int8", "int16", "int4")


@dataclass(frozen=True)
class Reached:
    """What the choice of 16-bit layers for a target came to."""

    target_db: float
    chosen_db: float
    """Decibels of the worst output, on `samples` samples, while layers were chosen."""
    step_db: float
    """The same of the noisiest sample (`Difference.step_db`), at output `step_output`."""
    step_output: str
    samples: int
    held_out: bool
    """The samples were kept out of the calibration while layers were chosen; the result's ranges hold them, too."""
    plain_taken: bool = False
    """Plain integers were better on those samples, and are the result."""

    @property
    def told(self) -> str:
        """The result in words, with the data that it was measured on."""
        kind = "samples kept out of the choice's calibration" if self.held_out else "calibration samples"
        text = (
            f"target {self.target_db:g} dB: the choice has {self.chosen_db:.1f} dB on {self.samples:,} {kind}, "
            f"{self.step_db:.1f} dB in the noisiest of them (output {self.step_output!r})"
        )
        if self.step_db < self.target_db:
            text += "; it may miss the target on other data, and no other choice is better"
        if self.plain_taken:
            text += "; without it the SQNR is better there, so the result is without it"
        return text


@dataclass
class Quantization:
    """The integer graph with its encodings, and what it was made from."""

    source: Graph
    """The float graph, as the importer made it."""
    canonical: Graph
    """The float graph whose tensors `result.layers` speaks of."""
    result: Quantized
    samples: Samples
    calibration: Mapping[str, np.ndarray]
    """The arrays that the samples were cut from."""
    prepared: "Prepared"
    """What makes it again, with other layers in 16 bits than `finer`."""
    finer: Finer
    reached: Reached | None = None
    """How the target was met, if there was one."""

    @property
    def graph(self) -> Graph:
        """The integer graph."""
        return self.result.graph


@dataclass(frozen=True)
class Prepared:
    """A float graph that was calibrated: integers of it can be made again and again, with other layers in 16 bits."""

    source: Graph
    canonical: Graph
    samples: Samples
    calibration: Mapping[str, np.ndarray]
    statistics: Statistics
    activations: str
    method: str
    forced: Forced
    correct_bias: bool
    covariances: Covariances
    """Covariances of what convolutions read whose weights are rounded with error feedback; none without."""
    curves: Curves
    """Curves of inputs, by name."""
    group: int | None = None
    """Input channels that share a scale of 4-bit weights; None: weights have 8 bits."""

    def plan(self, finer: Finer) -> Plan:
        """The encodings with what is `finer`."""
        kind = ACTIVATIONS[self.activations]
        graph = behind_curves(self.canonical, self.curves)
        plan = Plan(graph, self.statistics, kind, self.method, dict(self.forced), self.correct_bias, finer)
        plan.covariances, plan.group = self.covariances, self.group
        plan.bent = frozenset(map(bent_name, self.curves))
        return plan

    def quantization(self, finer: Finer) -> Quantization:
        """The integers. InputError, UnsupportedError as `quantize_graph`."""
        try:
            result = with_curves(rewrite(self.plan(finer)), self.curves)
        except ScaleError as error:
            raise InputError(f"{error}: {way_out(self.samples)}") from None
        return Quantization(self.source, self.canonical, result, self.samples, self.calibration, self, finer)


def largest_of(samples: Samples) -> dict[str, float]:
    """The largest magnitude of each input."""
    return {
        name: max(float(np.abs(sample[name]).max(initial=0)) for sample in samples) for name in samples[0]
    }


def way_out(samples: Samples) -> str:
    """Names the input with the largest calibration values."""
    largest = largest_of(samples)
    name = max(largest, key=lambda each: largest[each])
    return (
        f"the calibration data for input {name!r} goes up to {largest[name]:.3g}; "
        "give samples such as the model will see"
    )
