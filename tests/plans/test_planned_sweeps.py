"""One size of a layer in steps of one: every limit and rounding that depends on it is met, and just missed.

As in test_planned_layers.py, tests/recorded_runs.json has what is predicted and decided, and the programs."""

from layer_graphs import LayerBuilder
from sweeps import Make, graph_of, swept

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType
from tosaic.hw.config_text import get_config

TOGETHER = 6
"""Sizes of a test."""


def _convolved(
    build: LayerBuilder,
    shape: tuple[int, ...],
    channels: int,
    taps: int,
    stride: int = 1,
    *,
    narrow: bool = True,
) -> str:
    """A CONV2D and its RESCALE; `shape` is that of the image."""
    x = build.input("x", (1, *shape), DType.INT8)
    y = build.conv(x, channels, (taps, taps), stride=(stride, stride), input_zp=3)
    return build.rescale(y, DType.INT8, per_channel=True) if narrow else y


def _first_layer(build: LayerBuilder, n: int) -> str:
    """Few channels, by im2col where that pays."""
    return _convolved(build, (2 * n + 1, 2 * n + 3, 3), 16, 3, 2)


def _wide_first_layer(build: LayerBuilder, n: int) -> str:
    return _convolved(build, (10, n + 4, 5), 8, 4)


def _strided_points(build: LayerBuilder, n: int) -> str:
    return _convolved(build, (9, 2 * n + 1, 24), 16, 1, 2)


def _many_rows(build: LayerBuilder, n: int) -> str:
    return _convolved(build, (20 + n, 16, 32), 32, 3)


def _many_channels(build: LayerBuilder, n: int) -> str:
    return _convolved(build, (6, 6, 16 * n + 3), 24 * n, 1)


def _few_pixels(build: LayerBuilder, n: int) -> str:
    """The sums wait for a chain of operators."""
    y = _convolved(build, (1, n, 40), 80, 1)
    wide = build.rescale(y, DType.INT32, shift=32)
    limit = build.random_constant((1, 1, 1, 1), DType.INT32, 9, 9)
    return build.add("MINIMUM", [build.add("ABS", [wide]), limit], nan_mode="PROPAGATE")


def _depthwise(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, 12, n + 4, 20), DType.INT8)
    y = build.conv(x, 1, (3, 5), pad=(1, 1, 2, 2), depthwise=True)
    return build.rescale(y, DType.INT8, per_channel=True)


def _tall_depthwise(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, 40, 10, 16), DType.INT8)
    return build.conv(x, 1, (n + 1, 3), depthwise=True)


def _cascade(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, n + 8, 16, 16), DType.INT8)
    y = build.rescale(build.conv(x, 96, (1, 1)), DType.INT8, per_channel=True)
    y = build.rescale(
        build.conv(y, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True), DType.INT8, per_channel=True
    )
    return build.rescale(build.conv(y, 16, (1, 1)), DType.INT8, per_channel=True)


def _matrix(build: LayerBuilder, n: int) -> str:
    a, b = build.input("a", (2, n, 3 * n), DType.INT8), build.input("b", (2, 3 * n, 17), DType.INT8)
    return build.add("MATMUL", [a, b, *(build.zero_point(DType.INT8, zp) for zp in (2, 1))])


def _long_vector(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, 512 * n + 64), DType.INT32)
    return build.add("ADD", [x, build.input("y", (1, 512 * n + 64), DType.INT32)])


def _broadcast(build: LayerBuilder, n: int) -> str:
    x, y = (build.input(name, shape, DType.INT32) for name, shape in (("x", (n, 40, n)), ("y", (1, 40, 1))))
    return build.add("SUB", [x, y])


def _sum(build: LayerBuilder, n: int) -> str:
    return build.add("REDUCE_SUM", [build.input("x", (3, 37 * n, 5), DType.INT32)], axis=1)


def _short_rows(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, 120 + n, n), DType.INT8)
    return build.add("REDUCE_MAX", [x], axis=2, nan_mode="PROPAGATE")


def _largest(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (130, 3 * n), DType.INT8)
    return build.add("ARGMAX", [x], axis=1, nan_mode="PROPAGATE")


def _mean(build: LayerBuilder, n: int) -> str:
    """Over rows, then columns, of a convolution's sums."""
    y = build.rescale(_convolved(build, (8, n, 64), 16, 1, narrow=False), DType.INT32, shift=34)
    return build.add("REDUCE_SUM", [build.add("REDUCE_SUM", [y], axis=1)], axis=2)


def _pool(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, 20, n + 3, 12), DType.INT8)
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    attributes = dict(kernel=[3, 4], stride=[1, 1], pad=[0, 0, 0, 0])
    most = build.add("MAX_POOL2D", [x], nan_mode="PROPAGATE", **attributes)
    build.output(build.add("AVG_POOL2D", [x, *zeros], acc_type=DType.INT32, **attributes))
    return most


def _whole_pool(build: LayerBuilder, n: int) -> str:
    x = build.input("x", (1, n, 16, 5), DType.INT16)
    zeros = [build.zero_point(DType.INT16) for _ in range(2)]
    attributes = dict(kernel=[n + 1, 16], stride=[1, 1], pad=[1, 1, 0, 0])
    return build.add("AVG_POOL2D", [x, *zeros], acc_type=DType.INT32, **attributes)


def _turned(build: LayerBuilder, n: int) -> str:
    return build.add("TRANSPOSE", [build.input("x", (2, 9 * n, n + 6), DType.INT8)], perms=[0, 2, 1])


def _joined(build: LayerBuilder, n: int) -> str:
    x, y = (build.input(name, (4, 30, extent), DType.INT8) for name, extent in (("x", 4 * n), ("y", 64 + n)))
    return build.add("CONCAT", [x, y], axis=2)


def _stacked(build: LayerBuilder, n: int) -> str:
    names = [build.input(f"x{i}", (1, 130, 1), DType.INT8) for i in range(min(n, 20))]
    return build.add("CONCAT", names, axis=2)


def _gathered(build: LayerBuilder, n: int) -> str:
    values = build.input("values", (1, 29 * n, 40), DType.INT8)
    return build.add("GATHER", [values, build.input("indices", (1, 13 * n), DType.INT32)])


def _transposed_convolution(build: LayerBuilder, n: int) -> str:
    x, taps = build.input("x", (1, 5, 6, 2 * n), DType.INT8), n % 9 + 2
    weight = build.random_constant((4, taps, taps, 2 * n), DType.INT8, -90, 90)
    bias = build.random_constant((4,), DType.INT32, -9, 9)
    zeros = [build.zero_point(DType.INT8) for _ in range(2)]
    attributes = dict(out_pad=[0, 0, 0, 0], stride=[2, 2], acc_type=DType.INT32, local_bound=False)
    return build.add("TRANSPOSE_CONV2D", [x, weight, bias, *zeros], **attributes)


def _looked_up(build: LayerBuilder, n: int) -> str:
    y = _convolved(build, (7, 9, 5 * n), 40, 3)
    return build.add("TABLE", [y, build.random_constant((256,), DType.INT8, -128, 127)])


def _beyond_the_image(build: LayerBuilder, n: int) -> str:
    """Rows of the result that see nothing but padding."""
    x = build.input("x", (1, 12, 12, 24), DType.INT8)
    return build.conv(x, 8, (3, 3), pad=(n, n, 1, 1), input_zp=2)


def _many_biases(build: LayerBuilder, n: int) -> str:
    return _convolved(build, (2, 2, 8), 16 * n, 1, narrow=False)


def _lines(build: LayerBuilder, n: int) -> str:
    """A constant along the channels, added to sums."""
    wide = build.rescale(_convolved(build, (3, 3, 40), 12 * n, 1, narrow=False), DType.INT32, shift=33)
    line = build.random_constant((1, 1, 1, 12 * n), DType.INT32, -(1 << 20), 1 << 20)
    return build.add("MAXIMUM", [wide, line], nan_mode="PROPAGATE")


SWEEPS: dict[Make, tuple[str, ...]] = {
    _first_layer: ("base", "small"),
    _wide_first_layer: ("base", "nano"),
    _strided_points: ("base,am_bytes=16K", "small,am_bytes=4K"),
    _many_rows: ("base,am_bytes=16K", "small"),
    _many_channels: ("base,wm_bytes=8K", "small,am_bytes=8K"),
    _few_pixels: ("base", "small"),
    _depthwise: ("base", "small,am_bytes=8K"),
    _tall_depthwise: ("base", "small,partial_sums=0", "nano"),
    _cascade: ("base,am_bytes=32K",),
    _matrix: ("base", "small,am_bytes=4K"),
    _long_vector: ("base,am_bytes=64K", "small,am_bytes=16K"),
    _broadcast: ("small,am_bytes=8K", "base"),
    _sum: ("base", "small,am_bytes=4K"),
    _short_rows: ("base", "small"),
    _largest: ("base", "small"),
    _mean: ("base", "small"),
    _pool: ("base", "small,am_bytes=4K"),
    _whole_pool: ("base", "small"),
    _turned: ("base", "small,am_bytes=4K"),
    _joined: ("base", "small"),
    _stacked: ("base",),
    _gathered: ("base,am_bytes=16K", "small,am_bytes=4K"),
    _transposed_convolution: ("base",),
    _looked_up: ("base", "small"),
    _beyond_the_image: ("small", "small,am_bytes=4K"),
    _many_biases: ("small,am_bytes=4K",),
    _lines: ("base,am_bytes=16K", "small,am_bytes=4K"),
}
"""Layers by a size, and the machines that they are planned for."""
SIZES = range(1, 37)


@swept(SWEEPS, SIZES, TOGETHER)
def test_sizes(make: Make, machine: str, first: int) -> None:
    for size in range(first, first + TOGETHER):
        graph = graph_of(make, size)
        program = compile_graph(graph, get_config(machine))
        assert program.outputs[-1].name == graph.outputs[-1]
