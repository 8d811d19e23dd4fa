"""How far the integers are from the floats: layer by layer, and at the outputs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tosaic.sim.golden import evaluate

from .histogram import Histogram, histogram_for
from .prepared import Progress, Quantization
from .samples import check_labels, label_counts, split_samples


@dataclass
class Difference:
    """Reals of a float tensor against those that its integers stand for, summed over all samples."""

    name: str
    op: str
    integers: str
    """Type and shape of the integer tensor."""
    shown: str
    """What people are shown: the operator of the imported model, where it is known, or the tensor."""
    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0
    samples: int = 0
    noisiest: float = 0.0
    """The noise of the sample that has most."""
    histogram: Histogram | None = None
    """Histogram of the float values, over the range of the integers."""

    @property
    def sqnr_db(self) -> float:
        """Signal to quantization noise ratio, decibels; infinite without noise."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal > 0 else -math.inf

    @property
    def step_db(self) -> float:
        """The mean sample's signal to the noisiest sample's noise, decibels: a recurrence's worst step."""
        if self.noisiest == 0:
            return math.inf
        return 10 * math.log10(self.signal / self.samples / self.noisiest) if self.signal > 0 else -math.inf

    def add(self, wanted: np.ndarray, got: np.ndarray) -> None:
        """One sample."""
        wanted = wanted.astype(np.float64)
        if self.histogram is not None:
            self.histogram.add(wanted)
        error = got.reshape(wanted.shape) - wanted
        self.signal += float((wanted * wanted).sum())
        noise = float((error * error).sum())
        self.noise, self.noisiest, self.samples = (
            self.noise + noise,
            max(self.noisiest, noise),
            self.samples + 1,
        )
        self.largest = max(self.largest, float(np.abs(error).max()))


@dataclass
class Measurement:
    """Figures of a quantized graph on a set of samples. Rates are of rows along the outputs' last axis, 0 to 1."""

    layers: list[Difference]
    outputs: list[Difference]
    samples: int
    held_out: bool
    """The samples are none of the calibration's."""
    agreement: dict[str, float]
    """Share of rows whose largest element is the float graph's, by output; classifiers' outputs only."""
    accuracy: dict[str, tuple[float, float]]
    """Share of rows whose largest element is the label: (float, integers)."""
    runs: list[tuple[Mapping[str, np.ndarray], dict[str, np.ndarray]]] = field(default_factory=list)
    """The reals that entered and golden's integers at the outputs, for each sample."""

    @property
    def told_samples(self) -> str:
        """Which samples these are, in words."""
        return f"{self.samples:,} {'held-out' if self.held_out else 'calibration'} samples"


def measure(
    quantization: Quantization,
    labels: np.ndarray | None = None,
    progress: Progress | None = None,
    held_out: Mapping[str, np.ndarray] | None = None,
) -> Measurement:
    """Runs samples on golden in floats and in integers: those in `held_out`, arrays as the calibration's, or else the
    calibration's own, on which a model looks better than it is.

    `labels` holds the class of each row, in the samples' order; InputError when there are too few or too many.
    """
    source, arrays = quantization.source, held_out or quantization.calibration
    samples = split_samples(source, arrays, calibration=False) if held_out else quantization.samples
    if labels is not None:
        check_labels(source, arrays, labels)
    counts = label_counts(source, arrays)
    result, graph = quantization.result, quantization.canonical
    producers = {name: op for op in graph.operators for name in op.outputs}
    differences: dict[str, Difference] = {}
    for name, part in result.layers.items():
        if name in producers:
            tensor = result.graph.tensors[part.tensor]
            text = f"{tensor.dtype.name.lower()}{list(tensor.shape)}"
            shown = name if name in result.outputs else producers[name].source or name
            differences[name] = Difference(name, producers[name].op, text, shown)
    rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in result.outputs}
    runs: list[tuple[Mapping[str, np.ndarray], dict[str, np.ndarray]]] = []
    for index, sample in enumerate(samples):
        if progress is not None:
            progress("compare", index, len(samples))
        floats = evaluate(graph, sample, keep=True)
        encoded = {
            name: result.inputs[name].quantize(value) if name in result.inputs else value
            for name, value in sample.items()
        }
        integers = evaluate(result.graph, encoded, keep=True)
        for name, difference in differences.items():
            part = result.layers[name]
            values = integers.get(part.tensor, encoded.get(part.tensor))
            if values is not None:
                if difference.histogram is None:
                    dtype = result.graph.tensors[part.tensor].dtype
                    difference.histogram = histogram_for(part, dtype, floats[name])
                difference.add(floats[name], part.reals(values))
        runs.append((sample, {name: integers[name] for name in result.graph.run_outputs}))
        for name, encoding in result.outputs.items():
            rows[name].append((floats[name], encoding.dequantize(integers[name])))
    outputs = [differences[name] for name in result.outputs if name in differences]
    layers = [d for name, d in differences.items() if name not in result.outputs]
    agreement, accuracy = _classification(rows, labels, counts)
    return Measurement(layers, outputs, len(samples), bool(held_out), agreement, accuracy, runs)


def largest_elements(values: np.ndarray, classes: int) -> np.ndarray:
    """The place of each row's largest element along the last axis."""
    return values.reshape(-1, classes).argmax(1)


def _classification(
    rows: Mapping[str, list[tuple[np.ndarray, np.ndarray]]],
    labels: np.ndarray | None,
    counts: Mapping[str, int],
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    agreement: dict[str, float] = {}
    accuracy: dict[str, tuple[float, float]] = {}
    for name, pairs in rows.items():
        if not pairs or pairs[0][0].ndim < 1 or pairs[0][0].shape[-1] < 2:
            continue
        classes = pairs[0][0].shape[-1]
        wanted, got = (
            np.concatenate([largest_elements(pair[side], classes) for pair in pairs]) for side in (0, 1)
        )
        agreement[name] = float((wanted == got).mean())
        flat = None if labels is None else np.asarray(labels).reshape(-1)
        if flat is not None and len(flat) == counts.get(name):
            accuracy[name] = (
                float((wanted[: len(flat)] == flat).mean()),
                float((got[: len(flat)] == flat).mean()),
            )
    return agreement, accuracy
