"""How integers stand for reals: scales, zero points, and TOSA's multiplier and shift."""

import math
from dataclasses import dataclass, field

import numpy as np

from tosaic.compiler.ir import DType, Encoding
from tosaic.errors import UnsupportedError

_LARGEST_SHIFT, _SMALLEST_SHIFT = 62, 2


class ScaleError(UnsupportedError, ValueError):
    """No multiplier and shift of RESCALE stand for a scale."""


@dataclass
class Integers:
    """A tensor of the integer graph, and the reals it stands for: scale * (q - zero_point).

    `scale` is one number, or one for each element of the last axis. `bound` is the largest |q - zero_point| that
    any input can give. Real bounds `low` and `high` are still to be applied by whoever reads the tensor.
    """

    tensor: str
    dtype: DType
    scale: np.ndarray
    zero_point: int = 0
    bound: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    encoding: Encoding | None = field(default=None)
    """Set where the scale is one of the graph's own activations, shared by others."""
    bounds: np.ndarray | None = field(default=None)
    """`bound` of each element of the last axis, where they differ: a dead channel's may be far above the others'."""

    def __post_init__(self) -> None:
        # The scale of a single channel is one number, too.
        self.scale = np.asarray(self.scale, np.float64)
        if self.scale.size == 1:
            self.scale = self.scale.reshape(())

    @property
    def uniform(self) -> bool:
        """Whether one scale holds for the whole tensor."""
        return self.scale.ndim == 0

    @property
    def step(self) -> float:
        """The real that one integer stands for, of a tensor with one scale."""
        return self.scale.item()

    @property
    def reach(self) -> float:
        """The largest magnitude of the reals that any input can give."""
        return float((self.scale * (self.bound if self.bounds is None else self.bounds)).max())

    @property
    def bounded(self) -> bool:
        """Whether bounds are still to be applied."""
        return self.low > -math.inf or self.high < math.inf


def asymmetric(dtype: DType, low: float, high: float) -> Encoding:
    """The encoding of low..high, widened to hold 0, which stays exact. int16 has no zero point in TOSA."""
    low, high = min(low, 0.0), max(high, 0.0)
    if dtype is not DType.INT8:
        return symmetric(dtype, max(-low, high))
    scale = (high - low) / (dtype.max - dtype.min) or 1.0
    return Encoding(dtype, scale, max(dtype.min, min(dtype.max, round(dtype.min - low / scale))))


def symmetric(dtype: DType, largest: float) -> Encoding:
    """The encoding of -largest..largest with zero point 0."""
    return Encoding(dtype, largest / dtype.max if largest > 0 else 1.0)


def multiplier_and_shift(scale: float, bits: int = 31) -> tuple[int, int]:
    """(multiplier, shift) with multiplier * 2^-shift nearest to a scale that is not negative [TOSA 0.30 section 1.9].

    The multiplier has `bits` bits (31 for int32, 15 for int16), fewer where the shift would leave 2..62; scales of
    2^(bits - 2) and above are a ScaleError.
    """
    if not scale >= 0 or scale == math.inf:
        raise ScaleError(f"{scale} is no scale")
    mantissa, exponent = math.frexp(scale)
    multiplier, shift = round(mantissa * (1 << bits)), bits - exponent
    if multiplier == 1 << bits:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift > _LARGEST_SHIFT:
        lost = shift - _LARGEST_SHIFT
        multiplier = (multiplier + (1 << lost - 1)) >> lost if lost <= bits else 0
        shift = _LARGEST_SHIFT
    if shift < _SMALLEST_SHIFT:
        raise ScaleError(
            f"a scale of {scale} is too large for RESCALE: the network's values lie too far apart for integers; clamp "
            "them in the model, or calibrate with other data"
        )
    return multiplier, shift
