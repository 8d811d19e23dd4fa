"""Which quantization parameter each tensor gets: the fewest bits for an error at the network's outputs.

What a step size does to the outputs is measured once per tensor; from then on the error grows with the squared error of
the weights. Bits are estimated by the entropy of the levels. Per tensor the choice is a point on a curve, and one
exchange rate between bits and error, the same for all tensors, picks the points (Lagrange).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tosaic.nnr.payload import step_size
from tosaic.nnr.quantize import qp_for_step

QP_DENSITY = 2
# The steps that are tried, in octaves below and above the root mean square of a tensor's values.
FINEST_OCTAVES, COARSEST_OCTAVES = 17, 2
# Curves are drawn from at most this many values of a tensor.
SAMPLED_VALUES = 1 << 15
# Each state of the dependent quantizer reaches every other multiple of the step.
DEPENDENT_SPACING = 2
FLOAT_BITS = 32
# qp in front of the levels, the flag, the end of the payload.
PAYLOAD_BITS = 32


@dataclass(frozen=True)
class CodingPoint:
    """A way to code a tensor. qp: None keeps it exactly. scaled: by powers of two per output channel first.

    squared_error: mean, of the values. output_error: what it adds to the outputs' error, as a share of their power.
    """

    qp: int | None
    scaled: bool
    bits: float
    squared_error: float = 0.0
    output_error: float = 0.0


def exact_point(values: np.ndarray) -> CodingPoint:
    """The tensor as it is."""
    return CodingPoint(None, False, FLOAT_BITS * values.size)


def step_of(qp: int) -> float:
    """The step size of `qp`."""
    mantissa, exponent = step_size(qp, QP_DENSITY)
    return float(np.ldexp(float(mantissa), exponent))


def curve(values: np.ndarray, scales: np.ndarray | None = None, scale_bits: float = 0.0) -> list[CodingPoint]:
    """Bits and squared error at each step size worth trying; `scales` divide the values, and cost `scale_bits`."""
    weights = values.astype(np.float64)
    factors = (
        np.ones(values.shape) if scales is None else np.broadcast_to(scales, values.shape).astype(np.float64)
    )
    flat, factors = (weights / factors).reshape(-1), factors.reshape(-1)
    stride = -(-flat.size // SAMPLED_VALUES)
    some, some_factors = flat[::stride], factors[::stride]
    size = float(np.sqrt(np.mean(flat**2)))
    if not 0 < size < float("inf"):
        return []
    first = qp_for_step(size * 2.0**-FINEST_OCTAVES)
    points = []
    for qp in range(
        max(first, -128), min(first + ((FINEST_OCTAVES + COARSEST_OCTAVES) << QP_DENSITY), 127) + 1
    ):
        spacing = DEPENDENT_SPACING * step_of(qp)
        levels = np.rint(some / spacing)
        counts = np.unique(levels, return_counts=True)[1]
        shares = counts / some.size
        entropy = float(-(shares * np.log2(shares)).sum())
        if counts.size > some.size // 4:
            # Most values occur once: the entropy of the sample says nothing about that of fine steps.
            entropy = max(entropy, float(np.log2(size / spacing)) + 2)
        error = float(np.mean(((levels * spacing - some) * some_factors) ** 2))
        points.append(
            CodingPoint(qp, scales is not None, entropy * flat.size + PAYLOAD_BITS + scale_bits, error)
        )
    return points


def with_sensitivity(
    points: Sequence[CodingPoint], probed: Sequence[CodingPoint], output_errors: Sequence[float]
) -> list[CodingPoint]:
    """The points with the error that they cause, as `output_errors` were measured at those `probed`."""
    if not probed or not np.isfinite(output_errors).all():
        return []
    ratios = [error / point.squared_error for point, error in zip(probed, output_errors, strict=True)]
    per_square = sum(ratios) / len(ratios)
    return [
        CodingPoint(point.qp, point.scaled, point.bits, point.squared_error, point.squared_error * per_square)
        for point in points
    ]


def choose(curves: Mapping[str, Sequence[CodingPoint]], bits_per_error: float) -> dict[str, CodingPoint]:
    """Returns for each tensor the point of the least bits + `bits_per_error` * error."""
    return {
        name: min(points, key=lambda point: point.bits + bits_per_error * point.output_error)
        for name, points in curves.items()
    }
