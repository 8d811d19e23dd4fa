"""Networks whose weights compress."""

import numpy as np
from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph


class SparseLayers(LayerBuilder):
    """A LayerBuilder whose weights are mostly zero, and small where they are not."""

    zeros = 0.6
    """The share of them from now on."""

    def random_constant(self, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> str:
        if dtype is not DType.INT8 or len(shape) != 4:
            return super().random_constant(shape, dtype, low, high)
        values = np.clip(self.random.laplace(0, 4, shape).round(), low, high)
        return self.constant(np.where(self.random.random(shape) < self.zeros, 0, values), dtype)


def sparse_network(seed: int = 1, channels: int = 40) -> Graph:
    """A dense convolution, a depthwise one and a wide dense one."""
    build = SparseLayers(seed)
    x = build.input("x", (1, 9, 7, 12), DType.INT8)
    y = build.rescale(build.conv(x, channels, (3, 3), pad=(1, 1, 1, 1), input_zp=-3), DType.INT8)
    y = build.rescale(build.conv(y, 1, (3, 3), stride=(2, 2), depthwise=True), DType.INT8)
    y = build.rescale(build.conv(y, 3 * channels, (1, 1), weight_zp=2), DType.INT8)
    build.output(y)
    return build.graph
