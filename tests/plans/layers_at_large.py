"""Layers over the whole space of shapes, kernels, strides and types, and machines and memories to plan them for.

Larger than what tests run: a plan costs the same for an image of any size."""

import random
from collections.abc import Callable

from layer_graphs import LayerBuilder
from legal_configs import random_config

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config

_MACHINES = (
    *("nano", "small", "base", "base", "small,am_bytes=8K", "small,am_bytes=4K", "nano,am_bytes=16K"),
    *("base,am_bytes=16K", "base,am_bytes=32K", "base,am_bytes=64K", "base,wm_bytes=8K", "base,rows=8"),
    *("base,cores=2,bus_words=2", "base,cores=4,bus_words=2", "small,partial_sums=0", "base,am_banks=2"),
)
_BANDWIDTHS = (None, None, None, 8, 4, 2, 1, 0.5)
_LATENCIES = (50, 50, 50, 0, 10, 120, 400)
_CHANNELS = (1, 2, 3, 4, 5, 8, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 64, 80, 96, 130)
_MOST_BYTES = 1 << 17


_WIDEST_BITS, _WIDEST_BYTES = 48, 8
"""Of an element, in a lane and in memory."""


def machine(dice: random.Random) -> Config:
    """One of those above, or any."""
    return random_config(dice) if dice.random() < 0.15 else get_config(dice.choice(_MACHINES))


def wide_machine(dice: random.Random) -> Config:
    """One that takes every type: others refuse int48."""
    while True:
        config = machine(dice)
        if config.word_bytes >= _WIDEST_BYTES and config.vector_bits >= _WIDEST_BITS:
            return config


def memory(dice: random.Random) -> MemorySpeed:
    return MemorySpeed(dice.choice(_BANDWIDTHS), dice.choice(_LATENCIES))


def layer(kind: str, dice: random.Random) -> Graph:
    """A few operators with a layer of a kind among them."""
    build = LayerBuilder(dice.randrange(1 << 30))
    KINDS[kind](build, dice)
    return build.finish()


def _image(build: LayerBuilder, dice: random.Random, dtype: DType = DType.INT8, most: int = 64) -> str:
    channels = dice.choice(_CHANNELS)
    height, width = (dice.choice((1, 2, 4, 5, 7, 8, 9, 14, 16, 17, 28, 31, 32, 56, 64)) for _ in range(2))
    height, width = min(height, most), min(width, most)
    while height * width * channels > _MOST_BYTES:
        channels = max(1, channels // 2)
    images = dice.choice((1, 1, 1, 1, 2, 3))
    return build.input(f"x{len(build.graph.inputs)}", (images, height, width, channels), dtype)


def _kernel(build: LayerBuilder, dice: random.Random, x: str) -> dict:
    """Kernel, stride, dilation and padding that the image allows."""
    _, height, width, _ = build.graph.tensors[x].shape
    same = dice.random() < 0.5
    kernel, stride, dilation, pad = [], [], [], []
    for extent in (height, width):
        step = dice.choice((1, 1, 1, 2, 2, 3))
        apart = dice.choice((1, 1, 1, 1, 2, 3)) if step == 1 else 1
        taps = dice.choice((1, 1, 3, 3, 3, 2, 4, 5, 7))
        reach = (taps - 1) * apart + 1
        before, after = (reach // 2, (reach - 1) // 2) if same else (0, 0)
        if extent + before + after < reach:
            taps, reach, before, after = 1, 1, 0, 0
        # TOSA wants strides to end with the image.
        rest = (extent + before + after - reach) % step
        if rest and extent - rest + before + after >= reach and after >= rest:
            after -= rest
        elif rest:
            after += step - rest
        kernel.append(taps)
        stride.append(step)
        dilation.append(apart)
        pad += [before, after]
    return dict(kernel=tuple(kernel), stride=tuple(stride), dilation=tuple(dilation), pad=tuple(pad))


def _narrowed(build: LayerBuilder, dice: random.Random, x: str) -> str:
    dtype = dice.choice((DType.INT8, DType.INT8, DType.INT8, DType.INT16))
    return build.rescale(x, dtype, per_channel=dice.random() < 0.6)


def _convolved(build: LayerBuilder, dice: random.Random, x: str, *, depthwise: bool) -> str:
    zero_point = dice.choice((0, 0, 3, -128))
    weight_zp = dice.choice((0, 0, 0, 5))
    channels = dice.choice((1, 1, 1, 2)) if depthwise else dice.choice(_CHANNELS)
    window = _kernel(build, dice, x)
    return build.conv(x, channels, depthwise=depthwise, input_zp=zero_point, weight_zp=weight_zp, **window)


def _convolution(build: LayerBuilder, dice: random.Random) -> None:
    y = _convolved(build, dice, _image(build, dice), depthwise=False)
    build.output(_narrowed(build, dice, y) if dice.random() < 0.7 else y)


def _depthwise(build: LayerBuilder, dice: random.Random) -> None:
    y = _convolved(build, dice, _image(build, dice), depthwise=True)
    build.output(_narrowed(build, dice, y) if dice.random() < 0.7 else y)


def _chain(build: LayerBuilder, dice: random.Random) -> None:
    """Convolutions and pools one after the other; a residual perhaps."""
    x = _image(build, dice, most=40)
    for _ in range(dice.randint(2, 4)):
        before, move = x, dice.random()
        if move < 0.2:
            x = _pooled(build, dice, x)
            continue
        x = build.rescale(_convolved(build, dice, x, depthwise=move < 0.5), DType.INT8, per_channel=True)
        if build.graph.tensors[x].shape == build.graph.tensors[before].shape and dice.random() < 0.7:
            x = build.residual(before, x)
        elif dice.random() < 0.2:
            build.output(x)
    build.output(x)


def _pooled(build: LayerBuilder, dice: random.Random, x: str) -> str:
    window = _kernel(build, dice, x)
    kernel, pad = window["kernel"], list(window["pad"])
    for axis in (0, 1):
        # A window wants an element of the image: less padding than kernel.
        if max(pad[2 * axis : 2 * axis + 2]) >= kernel[axis] or window["dilation"][axis] > 1:
            return x
    attributes: dict = dict(kernel=list(kernel), stride=list(window["stride"]), pad=pad)
    if dice.random() < 0.5:
        return build.add("MAX_POOL2D", [x], nan_mode="PROPAGATE", **attributes)
    dtype = build.graph.tensors[x].dtype
    zeros = [build.zero_point(dtype, dice.choice((0, 4)) if dtype is DType.INT8 else 0) for _ in range(2)]
    return build.add("AVG_POOL2D", [x, *zeros], acc_type=DType.INT32, **attributes)


def _pool(build: LayerBuilder, dice: random.Random) -> None:
    x = _image(build, dice, dice.choice((DType.INT8, DType.INT8, DType.INT16)))
    build.output(build.clamp(_pooled(build, dice, x), -100, 90))


def _product(build: LayerBuilder, dice: random.Random) -> None:
    images, rows, depth, columns = (dice.choice(sizes) for sizes in ((1, 1, 2, 5), *(_CHANNELS,) * 3))
    a = build.input("a", (images, rows, depth), DType.INT8)
    b = build.input("b", (images, depth, columns), DType.INT8)
    zeros = [build.zero_point(DType.INT8, dice.choice((0, 0, 7))) for _ in range(2)]
    build.output(_narrowed(build, dice, build.add("MATMUL", [a, b, *zeros])))


def _shape(dice: random.Random, rank: int, most: int = 1 << 15) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rank):
        room = most
        for extent in shape:
            room //= extent
        shape.append(min(max(1, room), dice.choice((1, 2, 3, 5, 8, 16, 17, 30, 64, 100, 300))))
    dice.shuffle(shape)
    return tuple(shape)


def _elementwise(build: LayerBuilder, dice: random.Random) -> None:
    dtype = dice.choice((DType.INT32, DType.INT32, DType.INT8, DType.INT16))
    shape = _shape(dice, dice.randint(1, 4))
    other = tuple(1 if dice.random() < 0.3 else extent for extent in shape)
    a, b = build.input("a", shape, dtype), build.input("b", other, dtype)
    if dtype is not DType.INT32:
        a, b = (build.rescale(name, DType.INT32, shift=dice.choice((20, 31))) for name in (a, b))
    op = dice.choice(("MAXIMUM", "MINIMUM", "ADD", "SUB"))
    extra = dict(nan_mode="PROPAGATE") if op in ("MAXIMUM", "MINIMUM") else {}
    y = build.add(op, [a, b], **extra)
    if dice.random() < 0.5:
        y = build.rescale(
            y, dice.choice((DType.INT8, DType.INT16, DType.INT32)), per_channel=dice.random() < 0.5
        )
    build.output(y)


def _reduction(build: LayerBuilder, dice: random.Random) -> None:
    shape = _shape(dice, dice.randint(1, 4))
    axis = dice.randrange(len(shape))
    op = dice.choice(("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "ARGMAX"))
    dtype = DType.INT32 if op == "REDUCE_SUM" else dice.choice((DType.INT8, DType.INT16))
    x = build.input("x", shape, dtype)
    extra = dict(nan_mode="PROPAGATE") if op != "REDUCE_SUM" else {}
    build.output(build.add(op, [x], axis=axis, **extra))


def _move(build: LayerBuilder, dice: random.Random) -> None:
    """Elements that only change their places, before or behind something that computes."""
    shape = _shape(dice, dice.randint(2, 4))
    dtype = dice.choice((DType.INT8, DType.INT8, DType.INT16, DType.INT32))
    x = build.input("x", shape, dtype)
    match dice.choice(("TRANSPOSE", "TRANSPOSE", "PAD", "SLICE", "CONCAT", "TILE", "REVERSE")):
        case "TRANSPOSE":
            perms = list(range(len(shape)))
            dice.shuffle(perms)
            y = build.add("TRANSPOSE", [x], perms=perms)
        case "PAD":
            padding = [dice.choice((0, 0, 1, 2, 5)) for _ in range(2 * len(shape))]
            y = build.add("PAD", [x, build.shape(padding), build.zero_point(dtype, 3)])
        case "SLICE":
            start = [dice.randrange(extent) for extent in shape]
            size = [dice.randint(1, extent - first) for first, extent in zip(start, shape, strict=True)]
            y = build.add("SLICE", [x, build.shape(start), build.shape(size)])
        case "CONCAT":
            y = build.add("CONCAT", [x, build.input("y", shape, dtype)], axis=dice.randrange(len(shape)))
        case "TILE":
            y = build.add("TILE", [x, build.shape([dice.choice((1, 1, 2, 3)) for _ in shape])])
        case _:
            y = build.add("REVERSE", [x], axis=dice.randrange(len(shape)))
    build.output(build.add("ABS", [y]) if dtype is DType.INT32 else y)


def _gather(build: LayerBuilder, dice: random.Random) -> None:
    images, rows, width, count = (
        dice.choice(sizes) for sizes in ((1, 2, 3), (5, 40, 300), (1, 16, 40), (1, 9, 60))
    )
    dtype = dice.choice((DType.INT8, DType.INT16, DType.INT32))
    values = build.input("values", (images, rows, width), dtype)
    indices = build.input("indices", (images, count), DType.INT32)
    build.output(build.add("GATHER", [values, indices]))


KINDS: dict[str, Callable[[LayerBuilder, random.Random], None]] = {
    "convolution": _convolution,
    "depthwise": _depthwise,
    "chain": _chain,
    "pool": _pool,
    "product": _product,
    "elementwise": _elementwise,
    "reduction": _reduction,
    "move": _move,
    "gather": _gather,
}
