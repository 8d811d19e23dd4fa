"""Which inputs get a curve: those whose 8 bits in equal steps lose what the model computes from."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tosaic.compiler.ir import CurvedEncoding, DType, Encoding, EncodingCurve, Graph
from tosaic.compiler.quantizer import asymmetric
from tosaic.sim.golden import evaluate

from .measurement import Difference
from .samples import Samples

INPUT_CURVES = ("auto", "none", "log", "sqrt")
_TRIED = 4
"""Samples that are looked at."""
_ENOUGH_DB = 26.0
"""An input that limits no output to less than this has equal steps."""
_GAIN_DB = 6.0
_SMALL = 1 / 32
"""Where half of an input's numbers, zeros apart, are below this share of its range a curve is tried."""
_UNITS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""Units of logarithms that are tried, as shares of the median magnitude."""


def choose_curves(graph: Graph, samples: Samples, wanted: str, dtype: DType) -> dict[str, EncodingCurve]:
    """Curves by input, for activations of type `dtype`: one of the kind that is wanted for each input of reals, or with
    auto the best for each that gains much by it."""
    found: dict[str, EncodingCurve] = {}
    for name in graph.inputs if wanted != "none" else ():
        values = np.concatenate([np.abs(sample[name]).reshape(-1) for sample in samples])
        if not graph.tensors[name].dtype.is_float or name in graph.states or not np.all(np.isfinite(values)):
            continue
        median = float(np.median(values[values > 0])) if values.any() else 0.0
        if median == 0 or (wanted == "auto" and median > _SMALL * values.max()):
            continue
        trial = _Trial(graph, samples, name, dtype)
        plain = trial.decibels(None) if wanted == "auto" else -np.inf
        if plain >= _ENOUGH_DB:
            continue
        decibels = {curve: trial.decibels(curve) for curve in _candidates(median, wanted)}
        best = max(decibels, key=lambda curve: decibels[curve])
        if wanted != "auto" or decibels[best] >= max(plain, 0.0) + _GAIN_DB:
            found[name] = best
    return found


def _candidates(median: float, wanted: str) -> Iterator[EncodingCurve]:
    if wanted in ("auto", "sqrt"):
        yield EncodingCurve("sqrt")
    if wanted in ("auto", "log"):
        yield from (EncodingCurve("log", float(f"{share * median:.3g}")) for share in _UNITS)


def rounded_alone(
    graph: Graph,
    samples: Samples,
    wanted: Sequence[Mapping[str, np.ndarray]],
    name: str,
    encoding: Encoding | CurvedEncoding,
) -> dict[str, float]:
    """Returns the SQNR in dB of each output of reals where the input `name` alone is rounded, in a model of floats.
    `wanted` are the outputs of the samples as they are."""
    outputs = [each for each in graph.outputs if graph.tensors[each].dtype.is_float]
    found = {each: Difference(each, "", "", each) for each in outputs}
    for sample, whole in zip(samples, wanted, strict=True):
        rounded = encoding.dequantize(encoding.quantize(sample[name])).astype(sample[name].dtype)
        got = evaluate(graph, {**sample, name: rounded})
        for each, difference in found.items():
            difference.add(whole[each], got[each])
    # No number at all: small values were rounded to a zero that the model takes a logarithm of, or divides by.
    return {
        each: difference.sqnr_db if np.isfinite(difference.noise) else -np.inf
        for each, difference in found.items()
    }


class _Trial:
    """What the rounding of one input alone does to the outputs, in a model of floats."""

    def __init__(self, graph: Graph, samples: Samples, name: str, dtype: DType) -> None:
        self._graph, self._name, self._dtype, self._samples = graph, name, dtype, samples[:_TRIED]
        self._ends = min(s[name].min() for s in samples), max(s[name].max() for s in samples)
        self._wanted = [evaluate(graph, sample) for sample in self._samples]

    def decibels(self, curve: EncodingCurve | None) -> float:
        """The SQNR of the worst output."""
        found = rounded_alone(self._graph, self._samples, self._wanted, self._name, self._encoding(curve))
        return min(found.values(), default=np.inf)

    def _encoding(self, curve: EncodingCurve | None) -> Encoding:
        if curve is None:
            return asymmetric(self._dtype, *self._ends)
        return CurvedEncoding.of(asymmetric(self._dtype, *map(float, curve.bend(self._ends))), curve)
