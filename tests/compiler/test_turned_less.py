"""Networks as ONNX writes them, in planes, and as TFLite does: what is turned there and back again is not turned, and
nothing is copied to be padded."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session

FORTH, BACK = [0, 2, 3, 1], [0, 3, 1, 2]


def convolved(build: LayerBuilder, planes: str, channels: int, window: int = 1) -> str:
    """A convolution of planes."""
    pixels = build.add("TRANSPOSE", [planes], perms=FORTH)
    y = build.rescale(build.conv(pixels, channels, (window, window)), DType.INT8, shift=37)
    return build.add("TRANSPOSE", [y], perms=BACK)


def joined() -> Graph:
    """A U-Net's step: a padded image beside another one, read by a convolution."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 24, 10, 12), DType.INT8)
    a, b = convolved(build, x, 24), convolved(build, x, 40, 3)
    b = build.add("PAD", [b, build.shape([0, 0, 0, 0, 1, 1, 1, 1]), build.zero_point(DType.INT8)])
    build.output(convolved(build, build.add("CONCAT", [a, b], axis=1), 16, 3))
    return build.finish()


def across() -> Graph:
    """Two groups on both sides of a TRANSPOSE; each of them had better work on pixels."""
    build = LayerBuilder(6)
    x = build.input("x", (1, 24, 6, 8), DType.INT8)
    a, b = convolved(build, x, 24), convolved(build, x, 24, 1)
    a, b = (build.rescale(each, DType.INT32, shift=30) for each in (build.add("ABS", [a]), b))
    turned = [build.add("TRANSPOSE", [each], perms=[0, 1, 3, 2]) for each in (a, b)]
    total = build.rescale(build.add("ADD", turned), DType.INT8, shift=31)
    back = build.add("TRANSPOSE", [total], perms=[0, 1, 3, 2])
    build.output(convolved(build, back, 16, 3))
    return build.finish()


def patches() -> Graph:
    """A transformer's patches of planes, gathered and put back."""
    build = LayerBuilder(2)
    planes = convolved(build, build.input("x", (1, 24, 8, 12), DType.INT8), 24)
    split = build.add("RESHAPE", [planes, build.shape([24, 4, 2, 6, 2])])
    gathered = build.add("TRANSPOSE", [split], perms=[2, 4, 1, 3, 0])
    y = build.add("RESHAPE", [gathered, build.shape([4, 1, 24, 24])])
    y = build.rescale(build.conv(y, 24, (1, 1)), DType.INT8, shift=37)
    y = build.add("RESHAPE", [y, build.shape([2, 2, 4, 6, 24])])
    y = build.add("TRANSPOSE", [y], perms=[4, 2, 0, 3, 1])
    build.output(convolved(build, build.add("RESHAPE", [y, build.shape([1, 24, 8, 12])]), 8))
    return build.finish()


def global_maximum() -> Graph:
    """AdaptiveMaxPool1d of points."""
    build = LayerBuilder(3)
    y = build.rescale(
        build.conv(build.input("x", (1, 1, 1024, 16), DType.INT8), 64, (1, 1)), DType.INT8, shift=37
    )
    window = {"kernel": [1, 1024], "stride": [1, 1024], "pad": [0] * 4, "nan_mode": "PROPAGATE"}
    build.output(build.add("MAX_POOL2D", [y], **window))
    return build.finish()


def doubled() -> Graph:
    """Bilinear upsampling, as TFLite has it."""
    build = LayerBuilder(4)
    x = build.input("x", (1, 8, 10, 24), DType.INT8)
    parameters = [build.shape([4, 2, 4, 2]), build.shape([-1, -1]), build.shape([1, 1])]
    y = build.add("RESIZE", [x, *parameters], mode="BILINEAR", dtype=DType.INT32)
    build.output(build.rescale(y, DType.INT8, shift=35))
    return build.finish()


def padded() -> Graph:
    """A row and a column behind the image, as TFLite has them in front of a stride of 2."""
    build = LayerBuilder(5)
    x = build.rescale(
        build.conv(build.input("x", (1, 20, 24, 16), DType.INT8), 24, (1, 1)), DType.INT8, shift=37
    )
    x = build.add("PAD", [x, build.shape([0, 0, 0, 1, 0, 1, 0, 0]), build.zero_point(DType.INT8)])
    build.output(build.rescale(build.conv(x, 16, (3, 3), stride=(2, 2)), DType.INT8, shift=37))
    return build.finish()


GRAPHS = {
    "padded": padded,
    "doubled": doubled,
    "joined": joined,
    "patches": patches,
    "global maximum": global_maximum,
}
LAYERS = {
    "padded": {"CONV2D": 2},
    "doubled": {"CONCAT": 3, "DEPTHWISE_CONV2D": 2, "SLICE": 4, "TILE": 1},
    "across": {"CONV2D": 3},
    "joined": {"CONV2D": 3, "PAD": 1, "CONCAT": 1},
    "patches": {"CONV2D": 3, "TRANSPOSE": 2},
    "global maximum": {"CONV2D": 1, "REDUCE_MAX": 1},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_is_turned_twice(name):
    graph = GRAPHS[name]()
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 3), check=True)
    ops = [layer["op"] for layer in session.stats["layers"]]
    assert {op: ops.count(op) for op in sorted(set(ops))} == LAYERS[name]


@pytest.mark.parametrize("config", ["nano", "small", "base", "base,am_bytes=32K"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_integers_are_those_of_golden(name, config):
    assert_equal_to_golden(GRAPHS[name](), config, check_hazards=True)


@pytest.mark.parametrize("name", ["padded", "doubled", "joined", "patches"])
def test_on_the_rtl(name):
    graph = GRAPHS[name]()
    values = feeds(graph, 4)
    emulator, rtl = Session(graph, "emulator", "base"), Session(graph, "sim", "base")
    found, wanted = rtl.run(values), Session(graph, "golden").run(values)
    emulator.run(values)
    for output, value in wanted.items():
        np.testing.assert_array_equal(found[output], value)
    assert abs(emulator.stats["cycles"] / rtl.stats["cycles"] - 1) < 0.02
