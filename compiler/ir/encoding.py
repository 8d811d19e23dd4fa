"""What integers stand for, of a tensor whose integers stand for reals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tosaic.compiler.ir.dtypes import DType


@dataclass(frozen=True)
class Encoding:
    """real = scale * (q - zero_point), for a whole tensor of type `dtype`; `unsigned`: q is what its bits are as an
    integer without sign, as at the ports of models that have such."""

    dtype: DType
    scale: float
    zero_point: int = 0
    unsigned: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest real that it holds."""
        lowest = 0 if self.unsigned else self.dtype.min
        span = self.dtype.max - self.dtype.min
        return self.scale * (lowest - self.zero_point), self.scale * (lowest + span - self.zero_point)

    @property
    def high(self) -> float:
        """The largest real that it holds."""
        return self.ends[1]

    def quantize(self, values: ArrayLike) -> np.ndarray:
        """The nearest integers (ties to even), saturated, in the type that NumPy holds them in."""
        # What is beyond all floats saturates as well.
        with np.errstate(over="ignore"):
            exact = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero_point
        if self.unsigned:
            limits = np.iinfo(unsigned_type(self.dtype))
            return np.clip(exact, 0, limits.max).astype(limits.dtype).view(self.dtype.numpy)
        return np.clip(exact, self.dtype.min, self.dtype.max).astype(self.dtype.numpy)

    def dequantize(self, values: ArrayLike) -> np.ndarray:
        """The reals (float64) that integers stand for."""
        integers = np.asarray(values, np.float64)
        if self.unsigned:
            integers = integers % (1 << self.dtype.bits)
        return (integers - self.zero_point) * self.scale


@dataclass(frozen=True)
class EncodingCurve:
    """An odd function that makes numbers over decades more even: kind log is log(1 + x / unit), sqrt the root of x."""

    kind: str
    unit: float = 1.0
    """The size below which numbers are as good as in equal steps, of a logarithm."""

    def bend(self, values: ArrayLike) -> np.ndarray:
        """The even numbers (float64) for reals."""
        reals = np.asarray(values, np.float64)
        sizes = np.log1p(np.abs(reals) / self.unit) if self.kind == "log" else np.sqrt(np.abs(reals))
        return np.copysign(sizes, reals)

    def unbend(self, values: ArrayLike) -> np.ndarray:
        """The reals (float64) for even numbers."""
        even = np.asarray(values, np.float64)
        sizes = self.unit * np.expm1(np.abs(even)) if self.kind == "log" else even * even
        return np.copysign(sizes, even)


@dataclass(frozen=True)
class CurvedEncoding(Encoding):
    """What the integers of an input with a curve stand for: real = curve.unbend(step * (q - zero_point)). Its `scale`
    is 0, which nobody takes for one: `quantize` and `dequantize` know the curve."""

    curve: EncodingCurve = EncodingCurve("sqrt")
    step: float = 1.0

    @classmethod
    def of(cls, even: Encoding, curve: EncodingCurve) -> "CurvedEncoding":
        """Returns the encoding of reals whose bent numbers have the encoding `even`."""
        return cls(even.dtype, 0.0, even.zero_point, curve=curve, step=even.scale)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest real that it holds."""
        low, high = self.curve.unbend(self._even.ends)
        return float(low), float(high)

    def quantize(self, values: ArrayLike) -> np.ndarray:
        """The integers for the nearest bent numbers, saturated, in the type that NumPy holds them in."""
        return self._even.quantize(self.curve.bend(values))

    def dequantize(self, values: ArrayLike) -> np.ndarray:
        """The reals (float64) that integers stand for."""
        return self.curve.unbend(self._even.dequantize(values))

    @property
    def _even(self) -> Encoding:
        return Encoding(self.dtype, self.step, self.zero_point)


def unsigned_type(dtype: DType) -> np.dtype:
    """NumPy's type of integers without sign that has as many bits."""
    return np.dtype(f"uint{dtype.bits}")


_EVEN_LOSS = 10 ** (3 / 10)
"""The factor by which the noise of rounding weights may rise for one scale of all channels: 3 dB. What the operand
loses by its own rounding is mostly more."""


def evenly_scaled(weights: np.ndarray) -> bool:
    """Whether weights [channel, ...] lose little where all channels have the scale of the largest one, and not their
    own."""
    largest = np.abs(weights.astype(np.float64)).reshape(len(weights), -1).max(1)
    return bool(largest.max() ** 2 * len(largest) <= _EVEN_LOSS * (largest**2).sum())
