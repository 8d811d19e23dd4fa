"""TOSA's operators on floating point (section 1.10), in NumPy.

Every kernel computes in float64, which holds each value of each of TOSA's float types and nearly every sum of
products of them exactly; the result is rounded once, to the output's type. The specification allows accumulators
and intermediate values as narrow as `acc_type`; this is the exact result that its error bounds are measured from.
"""

from tosaic.sim.golden.floating import (  # noqa: F401  (importing a section registers its kernels)
    activation,
    convolution,
    elementwise,
    fourier,
    image,
    pooling,
    reduction,
    tensor,
    type_conversion,
)
