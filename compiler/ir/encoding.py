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


def unsigned_type(dtype: DType) -> np.dtype:
    """NumPy's type of integers without sign that has as many bits."""
    return np.dtype(f"uint{dtype.bits}")
