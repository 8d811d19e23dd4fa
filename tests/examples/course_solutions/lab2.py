"""A solution of lab 2."""

from typing import Any

from tosaic.compiler.ir import DType, Graph, GraphBuilder

KERNEL = ((1, 2, 1), (2, 4, 2), (1, 2, 1))


def smoothed() -> Graph:
    """CONV2D with KERNEL, and a RESCALE by 2 ** 30 / 2 ** 34."""
    build = GraphBuilder("smoothed")
    image = build.input("image", (1, 16, 16, 1), DType.INT8)
    weights = build.constant([[[[weight] for weight in row] for row in KERNEL]], DType.INT8)
    bias, zero, zero32 = (build.constant([0], dtype) for dtype in (DType.INT32, DType.INT8, DType.INT32))
    window: dict[str, Any] = dict(
        pad=[1] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT32, local_bound=False
    )
    sums = build.add("CONV2D", [image, weights, bias, zero, zero], **window)
    scale = [build.constant([1 << 30], DType.INT32), build.constant([34], DType.INT8)]
    flags: dict[str, Any] = dict(scale32=True, per_channel=False, input_unsigned=False, output_unsigned=False)
    options: dict[str, Any] = dict(dtype=DType.INT8, rounding_mode="SINGLE_ROUND")
    build.output(build.add("RESCALE", [sums, *scale, zero32, zero], **options, **flags))
    return build.finish()
