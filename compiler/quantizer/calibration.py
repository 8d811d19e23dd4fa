"""What calibration learns of each tensor, and the ranges that follow."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import Graph

BINS = 2048
_LEVELS = 256
HUGE = 500.0
"""Larger numbers may be masks: exp(-500) is 0."""
METHODS = ("minmax", "percentile", "entropy", "mse")
"""How the range of an activation is chosen."""

FOLDS = 4
"""Parts of the samples that equalization judges by the others."""

Kept = tuple[int, ...]


@dataclass
class Channels:
    """Extremes and mean square over all axes but the kept ones."""

    low: np.ndarray
    high: np.ndarray
    total: np.ndarray
    square: np.ndarray
    count: int = 0
    sizes: np.ndarray | None = None
    """Sums of magnitudes; None where they were not counted."""

    @property
    def largest(self) -> np.ndarray:
        """Largest magnitudes of the channels."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def joined(self, other: "Channels") -> "Channels":
        """Returns the figures of both together."""
        return Channels(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
            self.square + other.square,
            self.count + other.count,
            None if self.sizes is None or other.sizes is None else self.sizes + other.sizes,
        )

    @property
    def mean(self) -> np.ndarray:
        """Means of the channels."""
        return self.total / max(self.count, 1)

    @property
    def size(self) -> np.ndarray:
        """Mean magnitudes of the channels, or what these are at most."""
        return np.sqrt(self.power) if self.sizes is None else self.sizes / max(self.count, 1)

    @property
    def power(self) -> np.ndarray:
        """Mean squares of the channels."""
        return self.square / max(self.count, 1)


@dataclass
class Statistics:
    """The least and largest element of every tensor seen and, where asked for, channels and a histogram."""

    low: dict[str, float] = field(default_factory=dict)
    high: dict[str, float] = field(default_factory=dict)
    channels: dict[tuple[str, Kept], Channels] = field(default_factory=dict)
    folds: dict[tuple[str, Kept], dict[int, Channels]] = field(default_factory=dict)
    """The same for each part of the samples."""
    fold: int = 0
    """The part that samples are counted to."""
    histograms: dict[str, np.ndarray] = field(default_factory=dict)
    room: dict[str, float] = field(default_factory=dict)
    """How many times its range a tensor's values may reach in data that was not seen, where that is known."""
    infinite: set[str] = field(default_factory=set)
    """Tensors with elements that are not finite."""
    ordinary: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Range of the ordinary elements, for tensors that also have huge ones."""

    def observe(self, values: Mapping[str, np.ndarray], wanted: Mapping[str, set[Kept]]) -> None:
        """One run: arrays by tensor name; `wanted` says which axes to keep of which tensors."""
        for name, value in values.items():
            if value.dtype.kind != "f" or not value.size:
                continue
            finite = value if np.all(np.isfinite(value)) else value[np.isfinite(value)]
            if finite.size < value.size:
                self.infinite.add(name)
            if not finite.size:
                continue
            self.low[name] = min(self.low.get(name, np.inf), float(finite.min()))
            self.high[name] = max(self.high.get(name, -np.inf), float(finite.max()))
            if finite.size < value.size or max(-self.low[name], self.high[name]) > HUGE:
                self._ordinary(name, finite[np.abs(finite) <= HUGE])
            for kept in wanted.get(name, ()):
                self._channels(name, kept, value.astype(np.float64))

    def count(self, values: Mapping[str, np.ndarray]) -> None:
        """A second run over the same data: histograms between the extremes of all first runs."""
        for name, value in values.items():
            if name not in self.low or self.low[name] == self.high[name]:
                continue
            bins, _ = np.histogram(value, BINS, (self.low[name], self.high[name]))
            self.histograms[name] = self.histograms.get(name, 0) + bins

    def pool(self, groups: Iterable[Sequence[str]]) -> None:
        """Counts what was seen of one tensor of a group as seen of all of them, after all first runs."""
        for names in groups:
            seen = [name for name in names if name in self.low]
            low = min((self.low[name] for name in seen), default=0.0)
            high = max((self.high[name] for name in seen), default=0.0)
            self.low.update(dict.fromkeys(seen, low))
            self.high.update(dict.fromkeys(seen, high))
            for kept in {kept for name, kept in self.channels if name in names}:
                keys = [(name, kept) for name in names if (name, kept) in self.channels]
                whole = functools.reduce(Channels.joined, (self.channels[key] for key in keys))
                self.channels.update(dict.fromkeys(keys, whole))

    def pool_histograms(self, groups: Iterable[Sequence[str]]) -> None:
        """The same after all second runs."""
        for names in groups:
            seen = [name for name in names if name in self.histograms]
            if seen:
                whole = np.sum([self.histograms[name] for name in seen], axis=0)
                self.histograms.update(dict.fromkeys(seen, whole))

    def largest(self, name: str) -> float:
        """Returns the largest magnitude of a tensor."""
        return max(abs(self.low.get(name, 0.0)), abs(self.high.get(name, 0.0)))

    def extremes_with(self, other: "Statistics") -> "Statistics":
        """The least and largest elements that either saw; nothing else."""
        low = {name: min(value, other.low.get(name, value)) for name, value in self.low.items()}
        high = {name: max(value, other.high.get(name, value)) for name, value in self.high.items()}
        return Statistics({**other.low, **low}, {**other.high, **high})

    def overshoot(self, other: "Statistics") -> dict[str, float]:
        """Returns how many times as far from 0 values in `other` go, for tensors that leave the range seen here."""
        found = {}
        for name in self.low.keys() & other.low.keys():
            ends = ((-self.low[name], -other.low[name]), (self.high[name], other.high[name]))
            largest = self.largest(name)
            # An end nearer to 0 than the other is measured by the range that both make.
            beyond = max(max(there, 0.0) - max(here, 0.0) for here, there in ends)
            if largest > 0 and beyond > 0:
                found[name] = 1 + beyond / largest
        return found

    def parts(self, key: tuple[str, Kept]) -> list[Channels]:
        """The channels of a tensor as each part of the samples showed them."""
        return list(self.folds.get(key, {}).values())

    def range_seen(self, name: str) -> tuple[float, float]:
        """The least and the largest element."""
        return self.low.get(name, 0.0), self.high.get(name, 0.0)

    def ordinary_range(self, name: str) -> tuple[float, float]:
        """The least and the largest element that is not huge; 0 where all are."""
        low, high = self.range_seen(name)
        return self.ordinary.get(name, (low, high) if max(-low, high) <= HUGE else (0.0, 0.0))

    def range(self, name: str, method: str = "minmax") -> tuple[float, float]:
        """The range to encode, by `method`; 0 is inside."""
        low, high = min(self.low.get(name, 0.0), 0.0), max(self.high.get(name, 0.0), 0.0)
        if method == "minmax" or name not in self.histograms:
            return low, high
        return choose_range(self.histograms[name], self.low[name], self.high[name], method)

    def _ordinary(self, name: str, values: np.ndarray) -> None:
        if values.size:
            low, high = self.ordinary.get(name, (np.inf, -np.inf))
            self.ordinary[name] = (min(low, float(values.min())), max(high, float(values.max())))

    def _channels(self, name: str, kept: Kept, value: np.ndarray) -> None:
        axes = tuple(axis for axis in range(value.ndim) if axis not in kept)
        low = value.min(axes)
        count = value.size // max(low.size, 1)
        square, sizes = (value * value).sum(axes), np.abs(value).sum(axes)
        part = Channels(low, value.max(axes), value.sum(axes), square, count, sizes)
        whole = self.channels.get((name, kept))
        self.channels[name, kept] = part if whole is None else whole.joined(part)
        folds = self.folds.setdefault((name, kept), {})
        folds[self.fold] = folds[self.fold].joined(part) if self.fold in folds else part


def wanted_channels(graph: Graph) -> dict[str, set[Kept]]:
    """The channels that equalization and bias correction ask for: of what convolutions and MATMULs read."""
    wanted: dict[str, set[Kept]] = {}
    for op in graph.operators:
        if op.op == "MATMUL":
            wanted.setdefault(op.inputs[0], set()).add((0, 2))
            wanted.setdefault(op.inputs[1], set()).update({(0, 1), (0, 2)})
        elif op.op.endswith(("CONV2D", "CONV3D")):
            rank = len(graph.tensors[op.inputs[0]].shape)
            wanted.setdefault(op.inputs[0], set()).add((rank - 1,))
    return wanted


def choose_range(histogram: np.ndarray, low: float, high: float, method: str) -> tuple[float, float]:
    """A range inside low..high for 256 levels. The bins of `histogram` divide low..high equally.

    percentile: leaves out 1 of 100,000 elements at each end. mse: the least mean squared error of rounding and
    saturation.
    entropy: the least divergence (Kullback, Leibler) of the 256 levels' distribution from the histogram.
    """
    if method == "percentile":
        edges = np.linspace(low, high, len(histogram) + 1)
        share = np.cumsum(histogram) / histogram.sum()
        first = int(np.searchsorted(share, 1e-5, side="right"))
        last = int(np.searchsorted(share, 1 - 1e-5))
        return min(float(edges[first]), 0.0), max(float(edges[last + 1]), 0.0)
    cost = squared_error if method == "mse" else divergence
    best, chosen = np.inf, (min(low, 0.0), max(high, 0.0))
    for part_low in np.linspace(1.0, 0.3, 15) if low < 0 else (0.0,):
        for part_high in np.linspace(1.0, 0.3, 29) if high > 0 else (0.0,):
            candidate = (min(low, 0.0) * part_low, max(high, 0.0) * part_high)
            found = cost(histogram, low, high, *candidate)
            if found < best * (1 - 1e-9):
                best, chosen = found, candidate
    return chosen


def squared_error(histogram: np.ndarray, low: float, high: float, first: float, last: float) -> float:
    """Sum of the squared errors when what a histogram of [low, high] holds is rounded to levels of [first, last]."""
    width = (high - low) / len(histogram)
    centres = low + width * (np.arange(len(histogram)) + 0.5)
    outside = np.maximum(first - centres, 0) + np.maximum(centres - last, 0)
    step = (last - first) / (_LEVELS - 1)
    error = np.where(outside > 0, outside * outside, step * step / 12)
    # An element on 0 is exact; what sparse activations hold most must not count as noise.
    if low <= 0 <= high:
        error[min(int(-low / width), len(histogram) - 1)] = 0.0
    return float((histogram * error).sum())


def divergence(histogram: np.ndarray, low: float, high: float, first: float, last: float) -> float:
    """How far the distribution of the levels of [first, last] is from that of a histogram of [low, high]."""
    width = (high - low) / len(histogram)
    centres = low + width * (np.arange(len(histogram)) + 0.5)
    counts = histogram.astype(np.float64)
    zero = min(max(int(-low / width), 0), len(histogram) - 1)
    counts[zero] = 0.0
    levels = np.clip(
        np.rint((centres - first) / (last - first or 1.0) * (_LEVELS - 1)), 0, _LEVELS - 1
    ).astype(int)
    inside = (centres >= first) & (centres <= last)
    clipped = np.where(inside, counts, 0.0)
    edges = np.flatnonzero(inside)
    if not len(edges):
        return np.inf
    clipped[edges[0]] += counts[: edges[0]].sum()
    clipped[edges[-1]] += counts[edges[-1] + 1 :].sum()
    used = inside & (counts > 0)
    if not used.any():
        return np.inf
    sums = np.bincount(levels[used], counts[used], _LEVELS)
    bins = np.bincount(levels[used], minlength=_LEVELS)
    spread = np.zeros_like(counts)
    spread[used] = (sums / np.maximum(bins, 1))[levels[used]]
    p, q = clipped / clipped.sum(), spread / spread.sum()
    both = (p > 0) & (q > 0)
    missing = p[(p > 0) & (q <= 0)].sum()
    return float((p[both] * np.log(p[both] / q[both])).sum() + missing * 20.0)
