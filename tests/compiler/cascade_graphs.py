"""Networks whose layers run as cascades."""

import dataclasses

from layer_graphs import LayerBuilder

from tosaic.compiler.ir import DType, Graph
from tosaic.hw.config_text import get_config

SMALL_MEMORY = dataclasses.replace(get_config("base"), am_bytes=32 << 10)


def inverted_bottleneck(
    size: int,
    stride: int,
    *,
    channels: int = 16,
    wide: int = 96,
    residual: bool = False,
    kernel: int = 3,
    build: LayerBuilder | None = None,
) -> Graph:
    """Expand 1x1, depthwise, project 1x1; and the sum with what came in, if `residual`."""
    build = build or LayerBuilder(7)
    x = build.input("x", (1, size, size, channels), DType.INT8)
    x = build.rescale(build.conv(x, channels, (1, 1), input_zp=2), DType.INT8, per_channel=True)
    y = build.rescale(build.conv(x, wide, (1, 1), input_zp=3), DType.INT8, per_channel=True)
    pad = kernel // 2
    pads = (pad - (stride == 2), pad) * 2 if stride == 2 else (pad,) * 4
    y = build.conv(y, 1, (kernel, kernel), stride=(stride,) * 2, pad=pads, depthwise=True, input_zp=-4)
    y = build.rescale(y, DType.INT8, per_channel=True)
    y = build.rescale(build.conv(y, channels, (1, 1), input_zp=5), DType.INT8, per_channel=True)
    if residual:
        wide_sum = [build.rescale(part, DType.INT32, shift=32) for part in (x, y)]
        y = build.rescale(build.add("ADD", wide_sum), DType.INT8)
    build.output(y)
    return build.finish()
