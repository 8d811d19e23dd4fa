"""ONNX models coded for a quality: step sizes and scales by what they do to the outputs for samples of the inputs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tosaic.nnr.encoder import Settings
from tosaic.nnr.errors import NnrError
from tosaic.nnr.onnx_carriage import encode_onnx, load_onnx_package
from tosaic.nnr.onnx_runs import OnnxRuns
from tosaic.nnr.onnx_scaling import channel_axes, power_of_two_scales, scale_channels
from tosaic.nnr.onnx_tensors import SCALED_SUFFIX, SCALES_SUFFIX, model_tensors
from tosaic.nnr.onnx_weights import encode_weights
from tosaic.nnr.payload import dequantize
from tosaic.nnr.quantize import quantize_dependent
from tosaic.nnr.rate_distortion import (
    QP_DENSITY,
    CodingPoint,
    choose,
    curve,
    exact_point,
    with_sensitivity,
)

# Fewer values are not worth a step size of their own.
SMALLEST_VALUES = 8
# A scale is an index of a few bits, and its codebook has few entries.
SCALE_BITS = 3.0
SCALE_CODEBOOK_BITS = 32.0 * 6
# Steps of this fraction of a tensor's size are probed: small enough for an error that grows with the square.
PROBED_OCTAVES = 5
# One error is one draw of a rounding's luck, the more so if the outputs are few numbers.
PROBES = 3
# How often the exchange rate is halved, between the least and the most that could matter.
SEARCH_STEPS = 12
BEYOND_STEPS, BEYOND_LOG2 = 16, 2.0
LEAST_RATE_LOG2, MOST_RATE_LOG2 = 0.0, 64.0
POWER_DECIBELS = 10.0


@dataclass(frozen=True)
class CodingTarget:
    """What is asked for: a signal-to-noise ratio of the worst output, or a size of the bitstream."""

    sqnr_decibels: float | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class CodedRow:
    """How a tensor was coded. output_decibels: the outputs' ratio if it alone is coded (of the worst output)."""

    name: str
    qp: int | None
    scaled: bool
    output_decibels: float

    @property
    def coded_name(self) -> str:
        """The name of its data unit."""
        return self.name + SCALED_SUFFIX * self.scaled


@dataclass(frozen=True)
class Calibrated:
    """A bitstream, how its tensors were coded, and the signal-to-noise ratio of each output in decibels."""

    data: bytes
    rows: list[CodedRow]
    output_decibels: dict[str, float]


def decibels(share: float) -> float:
    """A signal-to-noise ratio for the noise's share of the signal's power."""
    return -POWER_DECIBELS * math.log10(share) if share > 0 else math.inf


def encode_for_quality(
    model: Any,
    samples: Mapping[str, np.ndarray],
    target: CodingTarget,
    settings: Settings | None = None,
    *,
    weights_only: bool = False,
) -> Calibrated:
    """Codes a ModelProto in as few bytes as reach the target, or as well as the size allows; weights_only: as
    `onnx_weights.encode_weights` does, without the network.

    Raises NnrError when the target is out of reach.
    """
    settings = settings or Settings("dependent", cabac_unary_length=None)
    search = _Search(model, samples, settings, weights_only=weights_only)
    chosen = search.for_sqnr(target.sqnr_decibels) if target.sqnr_decibels is not None else None
    if chosen is None:
        assert target.size_bytes is not None
        chosen = search.for_size(target.size_bytes)
    return search.result(chosen)


class _Search:
    def __init__(
        self, model: Any, samples: Mapping[str, np.ndarray], settings: Settings, *, weights_only: bool
    ) -> None:
        self._onnx = load_onnx_package()
        self._model, self._settings, self._weights_only = model, settings, weights_only
        self._runs = OnnxRuns(model, samples)
        self._values = {
            name: values
            for name, tensor in model_tensors(model).items()
            if _is_float(self._onnx, tensor)
            and (values := self._onnx.numpy_helper.to_array(tensor)).size >= SMALLEST_VALUES
            and np.isfinite(values).all()
        }
        axes = channel_axes(model)
        self._scales = {
            name: power_of_two_scales(values, axes[name])
            for name, values in self._values.items()
            if name in axes and values.any()
        }
        self._curves = {name: self._curve(name) for name in self._values}
        self._coded: dict[tuple[str, CodingPoint], np.ndarray] = {}

    def for_sqnr(self, wanted_decibels: float) -> dict[str, CodingPoint]:
        """The choice of the fewest estimated bits whose worst output reaches the ratio, by measurement."""

        def reaches(chosen: dict[str, CodingPoint]) -> bool:
            return min(map(decibels, self._error(chosen).values()), default=math.inf) >= wanted_decibels

        return self._searched(reaches, cheaper_first=True, wish=f"{wanted_decibels:g} dB")

    def for_size(self, wanted_bytes: int) -> dict[str, CodingPoint]:
        """The choice of the smallest estimated error whose bitstream has at most the size."""

        def fits(chosen: dict[str, CodingPoint]) -> bool:
            return len(self._encoded(chosen)) <= wanted_bytes

        return self._searched(fits, cheaper_first=False, wish=f"{wanted_bytes:,} bytes")

    def _searched(
        self, good: Callable[[dict[str, CodingPoint]], bool], *, cheaper_first: bool, wish: str
    ) -> dict[str, CodingPoint]:
        """The good choice with the exchange rate nearest to the bad ones."""
        ends = (LEAST_RATE_LOG2, MOST_RATE_LOG2)
        bad, best = ends if cheaper_first else ends[::-1]
        found = choose(self._curves, 2.0**best)
        if not good(found):
            raise NnrError(
                f"the target of {wish} is out of reach of step sizes: the tensors that are kept decide"
            )
        for _ in range(SEARCH_STEPS):
            middle = (bad + best) / 2
            chosen = choose(self._curves, 2.0**middle)
            if chosen == found or good(chosen):
                best, found = middle, chosen
            else:
                bad = middle
        # What is measured goes up and down from choice to choice: a better one may lie beyond a bad one.
        towards = 1 if bad > best else -1
        for step in range(BEYOND_STEPS, 0, -1):
            chosen = choose(self._curves, 2.0 ** (best + towards * step * BEYOND_LOG2 / BEYOND_STEPS))
            if good(chosen):
                return chosen
        return found

    def result(self, chosen: dict[str, CodingPoint]) -> Calibrated:
        """The bitstream of a choice, with what was measured."""
        rows = []
        for name, point in chosen.items():
            alone = self._runs.error({name: self._decoded(name, point)}) if point.qp is not None else {}
            rows.append(
                CodedRow(name, point.qp, point.scaled, min(map(decibels, alone.values()), default=math.inf))
            )
        total = {name: decibels(share) for name, share in self._error(chosen).items()}
        return Calibrated(self._encoded(chosen), rows, total)

    def _curve(self, name: str) -> list[CodingPoint]:
        values = self._values[name]
        points = [exact_point(values)]
        for scales in (None, self._scales.get(name)):
            if scales is None and len(points) > 1:
                continue
            bits = 0.0 if scales is None else SCALE_BITS * scales.size + SCALE_CODEBOOK_BITS
            drawn = curve(values, scales, bits)
            probed = _probes(values, drawn)
            errors = [
                max(self._runs.error({name: self._quantized(name, point)}).values(), default=0.0)
                for point in probed
            ]
            points += with_sensitivity(drawn, probed, errors)
        return points

    def _error(self, chosen: Mapping[str, CodingPoint]) -> dict[str, float]:
        coded = {name: point for name, point in chosen.items() if point.qp is not None}
        return self._runs.error({name: self._decoded(name, point) for name, point in coded.items()})

    def _decoded(self, name: str, point: CodingPoint) -> np.ndarray:
        if (name, point) not in self._coded:
            self._coded[name, point] = self._quantized(name, point)
        return self._coded[name, point]

    def _quantized(self, name: str, point: CodingPoint) -> np.ndarray:
        """A tensor's values as they come back from the bitstream."""
        assert point.qp is not None
        scales = self._scales[name] if point.scaled else np.float32(1)
        levels = quantize_dependent(
            self._values[name] / scales, point.qp, QP_DENSITY, self._settings.rate_weight
        )
        return dequantize(levels.reshape(-1), point.qp, QP_DENSITY).reshape(levels.shape) * scales

    def _encoded(self, chosen: Mapping[str, CodingPoint]) -> bytes:
        scaled = {name: self._scales[name] for name, point in chosen.items() if point.scaled}
        exact = replace(self._settings, method="lossless")
        settings = {}
        for name, point in chosen.items():
            if point.qp is None:
                settings[name] = exact
            else:
                settings[name + SCALED_SUFFIX * point.scaled] = replace(self._settings, qp=point.qp)
            if point.scaled:
                # Few powers of two: a codebook holds them exactly.
                settings[name + SCALES_SUFFIX] = replace(self._settings, method="codebook", codebook_size=256)
        model = scale_channels(self._model, scaled)
        if self._weights_only:
            return encode_weights(model, exact, settings)
        return encode_onnx(model, exact, settings, smallest_values=SMALLEST_VALUES)


def _is_float(onnx: Any, tensor: Any) -> bool:
    return bool(tensor.data_type == onnx.TensorProto.FLOAT)


def _probes(values: np.ndarray, drawn: list[CodingPoint]) -> list[CodingPoint]:
    """The points of a curve at which the outputs' error is measured."""
    power = float(np.mean(values.astype(np.float64) ** 2))
    fine = [point for point in drawn if 0 < point.squared_error <= power * 4.0**-PROBED_OCTAVES]
    return sorted(fine, key=lambda point: point.squared_error)[-PROBES:]
