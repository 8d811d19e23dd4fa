"""Weights that arrive while the array computes: the RTL must not wait in a circle."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType
from tosaic.driver.session import Session


@pytest.mark.xdist_group("base")
def test_many_tiles_of_pixels_and_two_byte_planes():
    """The shape at which an array that followed its weights word by word waited for a load that waited for it."""
    build = LayerBuilder(4)
    x = build.input("x", (5, 9, 33, 1), DType.INT16)
    y = build.add(
        "TRANSPOSE_CONV2D",
        [
            x,
            build.random_constant((15, 3, 1, 1), DType.INT8, -127, 127),
            build.random_constant((15,), DType.INT48, -(1 << 20), 1 << 20),
            build.zero_point(DType.INT16),
            build.zero_point(DType.INT8),
        ],
        dtype=DType.INT48,
        out_pad=[1, 0, 0, 0],
        stride=[1, 2],
        acc_type=DType.INT48,
        local_bound=False,
    )
    build.output(y)
    values = np.random.default_rng(1).integers(-32768, 32768, (5, 9, 33, 1)).astype(np.int16)
    Session(build.finish(), "sim", "base").run({"x": values}, check=True)
