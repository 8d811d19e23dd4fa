"""Random layers of one operator and its neighbours, with what bounds their cycles; `cliffs.py` measures them."""

import dataclasses
import math
import random
from collections.abc import Callable

import numpy as np

from tosaic.compiler.ir import DType, Graph, GraphBuilder
from tosaic.hw.config import Config

INT8, INT16, INT32, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.BOOL
LARGEST = 120_000
"""Bytes of a tensor, about: two of them fit the activation memory of `base`."""
TILE = 16
"""Rows and columns of the array of `base`."""


@dataclasses.dataclass
class Case:
    """A graph, and the work that no plan can do without."""

    name: str
    graph: Graph
    macs: int = 0
    lane_steps: int = 0
    """Elements that pass through the vector unit, once for each operator on them; a lane takes one each cycle."""

    def bounds(self, config: Config, bandwidth: float) -> dict[str, float]:
        """Cycles by what bounds them. A lone layer may load its inputs, then compute while weights come, then store."""
        graph = self.graph
        sizes = {
            name: math.prod(t.shape) * np.dtype(t.dtype.numpy).itemsize for name, t in graph.tensors.items()
        }
        read = {name for op in graph.operators for name in op.inputs}
        constants = sum(sizes[n] for n in read if graph.tensors[n].data is not None)
        around = sum(sizes[name] for name in (*graph.inputs, *graph.outputs)) / bandwidth
        work = {
            "multipliers": self.macs / config.macs_per_cycle,
            "lanes": self.lane_steps / config.columns,
            "bus": constants / bandwidth,
        }
        return {name: cycles + around for name, cycles in work.items()}


class Dice(random.Random):
    """Random sizes."""

    def size(self, low: int, high: int) -> int:
        """A size whose magnitude is even: small ones are as likely as large ones; one in two is a multiple of 8."""
        value = round(math.exp(self.uniform(math.log(low), math.log(high))))
        return min(high, max(low, value - value % 8)) if self.random() < 0.5 and value >= 8 else value


class Layers(GraphBuilder):
    """A graph under construction, which counts its work."""

    def __init__(self, dice: Dice):
        super().__init__("cliff")
        self.dice, self.values = dice, np.random.default_rng(dice.randrange(1 << 30))
        self.macs = self.steps = 0
        self.told: list[str] = []

    def source(self, shape: tuple[int, ...], dtype: DType, name: str = "x") -> str:
        return self.input(name, shape, dtype)

    def size_of(self, name: str) -> int:
        return math.prod(self.graph.tensors[name].shape)

    def products(self, pixels: int, depth: int, channels: int, share: float = 1.0) -> None:
        """Counts those of a convolution; tiles of 16 pixels and 16 channels are whole ones. `share` of the multipliers
        that can be asked for."""
        self.macs += round(-(-pixels // TILE) * TILE * -(-channels // TILE) * TILE * depth / share)

    def fixed(self, shape: tuple[int, ...], dtype: DType, low: int = -100, high: int = 100) -> str:
        return self.constant(self.values.integers(low, high, shape, endpoint=True), dtype)

    def zero(self, dtype: DType) -> str:
        return self.constant([0], dtype)

    def step(
        self, op: str, operands: list[str], passes: int = 1, dtype: DType | None = None, **attributes
    ) -> str:
        """An operator of the vector unit that reads each element of its first operand or makes each of its result."""
        result = self.add(op, operands, dtype=dtype, **attributes)
        self.steps += passes * max(self.size_of(operands[0]), self.size_of(result))
        return result

    def rescale(self, x: str, dtype: DType, per_channel: bool = False) -> str:
        source = self.graph.tensors[x]
        count = source.shape[-1] if per_channel else 1
        operands = [
            x,
            self.fixed((count,), INT32, 1 << 30, (1 << 31) - 1),
            self.fixed((count,), INT8, 38, 40),
        ]
        operands += [self.zero(source.dtype), self.zero(dtype)]
        flags = {"input_unsigned": False, "output_unsigned": False}
        return self.step(
            "RESCALE",
            operands,
            dtype=dtype,
            scale32=True,
            rounding_mode="SINGLE_ROUND",
            per_channel=per_channel,
            **flags,
        )

    def case(self, output: str) -> Case:
        self.output(output)
        return Case(" ".join(self.told), self.finish(), self.macs, self.steps)


def _shape(name: str, layers: Layers) -> str:
    return "x".join(map(str, layers.graph.tensors[name].shape))


def _behind(g: Layers, x: str) -> str:
    """What follows accumulators: scaled to some type, with other operators on the way."""
    dtype = g.dice.choice((INT8, INT8, INT16, INT32))
    kind = g.dice.choice(("plain", "plain", "reshape", "clamp", "add", "table"))
    if kind == "reshape":
        shape = g.graph.tensors[x].shape
        x = g.add("RESHAPE", [x, g.shape([1, math.prod(shape[:-1]), shape[-1]])])
    if dtype is INT32 and kind in ("plain", "reshape"):
        g.told.append(f"{kind} int32")
        return x
    x = g.rescale(x, dtype, per_channel=g.dice.random() < 0.5)
    if kind == "clamp" and dtype in (INT8, INT16):
        x = g.step("CLAMP", [x], min_val=-50, max_val=50, nan_mode="PROPAGATE")
    elif kind == "table" and dtype is INT8:
        x = g.step("TABLE", [x, g.fixed((256,), INT8)])
    elif kind == "add":
        other = g.source(g.graph.tensors[x].shape, INT8, "other")
        wide = x if dtype is INT32 else g.rescale(x, INT32)
        x = g.rescale(g.step("ADD", [wide, g.rescale(other, INT32)]), INT8)
    else:
        kind = "plain"
    g.told.append(f"{kind} {dtype.name.lower()}")
    return x


def convolution(g: Layers) -> Case:
    dice, (kh, kw) = g.dice, g.dice.choice(((1, 1), (1, 1), (3, 3), (5, 5), (1, 7), (3, 1), (7, 7)))
    stride, dilation = dice.choice((1, 1, 2)), dice.choice((1, 1, 1, 2))
    ic, oc = dice.size(1, 640), dice.size(2, 640)
    side = max(1, math.isqrt(LARGEST // max(ic, oc)))
    out = [dice.size(1, max(1, min(side, 56))) for _ in range(2)]
    while math.prod((*out, ic, oc, kh, kw)) > 20_000_000:
        ic, oc, out = max(1, ic // 2), max(2, oc // 2), [max(1, n * 3 // 4) for n in out]
    h, w = ((n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(out, (kh, kw), strict=True))
    x = g.source((1, h, w, ic), INT8)
    operands = [x, g.fixed((oc, kh, kw, ic), INT8), g.fixed((oc,), INT32), g.zero(INT8), g.zero(INT8)]
    window = {"pad": [0] * 4, "stride": [stride] * 2, "dilation": [dilation] * 2}
    y = g.add("CONV2D", operands, acc_type=INT32, local_bound=False, **window)
    g.products(math.prod(out), ic * kh * kw, oc)
    g.told.append(f"CONV2D {kh}x{kw}/{stride} dilation {dilation} {_shape(x, g)} to {oc}")
    return g.case(_behind(g, y))


def depthwise(g: Layers) -> Case:
    dice, (kh, kw) = g.dice, g.dice.choice(((3, 3), (3, 3), (5, 5), (7, 7), (9, 1), (1, 5)))
    stride, dilation, channels = dice.choice((1, 1, 2)), dice.choice((1, 1, 2)), dice.size(4, 480)
    side = max(2, math.isqrt(LARGEST // channels // stride**2))
    out = [dice.size(1, min(side, 56)) for _ in range(2)]
    h, w = ((n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(out, (kh, kw), strict=True))
    x = g.source((1, h, w, channels), INT8)
    operands = [
        x,
        g.fixed((kh, kw, channels, 1), INT8),
        g.fixed((channels,), INT32),
        g.zero(INT8),
        g.zero(INT8),
    ]
    window = {"pad": [0] * 4, "stride": [stride] * 2, "dilation": [dilation] * 2}
    y = g.add("DEPTHWISE_CONV2D", operands, acc_type=INT32, local_bound=False, **window)
    # 96 of 256 multipliers at work are what issue 18 asks for; channels are a whole number of words.
    g.macs += math.prod((*out, -(-channels // TILE) * TILE, kh, kw)) * 256 // 96
    g.told.append(f"DEPTHWISE {kh}x{kw}/{stride} dilation {dilation} {_shape(x, g)}")
    return g.case(_behind(g, y))


def connected(g: Layers) -> Case:
    rows, ic, oc = g.dice.choice((1, 1, 4, 8, 20)), g.dice.size(16, 1024), g.dice.size(8, 1024)
    x = g.source((rows, 1, 1, ic), INT8)
    operands = [x, g.fixed((oc, 1, 1, ic), INT8), g.fixed((oc,), INT32), g.zero(INT8), g.zero(INT8)]
    y = g.add(
        "CONV2D", operands, pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=INT32, local_bound=False
    )
    g.products(rows, ic, oc)
    g.told.append(f"FC {rows}x{ic} to {oc}")
    return g.case(_behind(g, y))


def matmul(g: Layers) -> Case:
    dice = g.dice
    h, c, w = dice.size(1, 200), dice.size(8, 256), dice.size(8, 256)
    n = max(1, min(dice.choice((1, 2, 8)), LARGEST // (2 * max(h * c, c * w))))
    dtype = dice.choice((INT8, INT8, INT8, INT16))
    a, b = g.source((n, h, c), dtype, "a"), g.source((n, c, w), dtype, "b")
    y = g.add("MATMUL", [a, b, g.zero(dtype), g.zero(dtype)])
    g.products(h, n * c * (1 if dtype is INT8 else 4), w)
    g.told.append(f"MATMUL {dtype.name.lower()} {n}x{h}x{c}x{w}")
    return g.case(y if dtype is INT16 else _behind(g, y))


def pool(g: Layers) -> Case:
    dice, kind = g.dice, g.dice.choice(("MAX_POOL2D", "AVG_POOL2D"))
    k, stride, channels = dice.choice((2, 3, 5, 7)), dice.choice((1, 2)), dice.size(4, 256)
    side = max(k, math.isqrt(LARGEST // channels) - k)
    out = [dice.size(1, max(1, min(side // stride, 40))) for _ in range(2)]
    h, w = ((n - 1) * stride + k for n in out)
    x = g.source((1, h, w, channels), INT8)
    window = {"kernel": [k, k], "stride": [stride, stride], "pad": [0] * 4}
    if kind == "MAX_POOL2D":
        y = g.step(kind, [x], nan_mode="PROPAGATE", **window)
    else:
        y = g.step(kind, [x, g.zero(INT8), g.zero(INT8)], acc_type=INT32, **window)
    # A window is a row of k, and k of those rows.
    g.steps = g.size_of(y) * 2 * k
    g.told.append(f"{kind} {k}x{k}/{stride} {_shape(x, g)}")
    return g.case(y)


def _any_shape(g: Layers, dtype: DType) -> tuple[int, ...]:
    rank, most = g.dice.randint(1, 4), LARGEST // np.dtype(dtype.numpy).itemsize
    shape: list[int] = []
    for _ in range(rank):
        shape.append(g.dice.size(1, max(1, min(most // max(1, math.prod(shape)), 4096))))
    g.dice.shuffle(shape)
    return tuple(shape)


def elementwise(g: Layers) -> Case:
    dtype = g.dice.choice((INT8, INT16, INT32, INT32))
    shape = _any_shape(g, dtype)
    other = shape if g.dice.random() < 0.5 else tuple(n if g.dice.random() < 0.6 else 1 for n in shape)
    x, y = g.source(shape, dtype), g.source(other, dtype, "y")
    wide = [n if dtype is INT32 else g.rescale(n, INT32) for n in (x, y)]
    names = []
    z = wide[0]
    for _ in range(g.dice.randint(1, 4)):
        names.append(g.dice.choice(("ADD", "SUB", "MUL", "MAXIMUM", "BITWISE_XOR")))
        operands = [z, wide[1], *([g.zero(INT8)] if names[-1] == "MUL" else [])]
        z = g.step(names[-1], operands, **({"nan_mode": "PROPAGATE"} if names[-1] == "MAXIMUM" else {}))
    z = z if dtype is INT32 else g.rescale(z, dtype)
    g.told.append(f"{'+'.join(names)} {dtype.name.lower()} {_shape(x, g)} with {_shape(y, g)}")
    return g.case(z)


def gate(g: Layers) -> Case:
    """A product that is scaled by channels: of SwiGLU, or where one line is for all pixels of squeeze and excite."""
    dtype = g.dice.choice((INT8, INT8, INT16))
    rows = g.dice.size(24, 800)
    shape = (1, rows, g.dice.size(8, min(4096, 3 * LARGEST // rows)))
    other = g.dice.choice((shape, (1, 1, shape[-1])))
    x, y = g.source(shape, dtype), g.source(other, dtype, "y")
    z = g.step("MUL", [g.rescale(x, INT32), g.rescale(y, INT32), g.zero(INT8)])
    g.told.append(f"gate {dtype.name.lower()} {_shape(x, g)} with {_shape(y, g)}")
    return g.case(g.rescale(z, dtype, per_channel=True))


def table(g: Layers) -> Case:
    dtype = g.dice.choice((INT8, INT16))
    x = g.source(_any_shape(g, dtype), dtype)
    entries = g.fixed((256,), INT8) if dtype is INT8 else g.fixed((513,), INT16)
    y = g.step("TABLE", [x, entries])
    g.told.append(f"TABLE {dtype.name.lower()} {_shape(x, g)}")
    return g.case(y if dtype is INT8 else g.rescale(y, g.dice.choice((INT8, INT32))))


def reduction(g: Layers) -> Case:
    op, dtype = g.dice.choice(
        (
            ("REDUCE_SUM", INT32),
            ("REDUCE_MAX", INT8),
            ("REDUCE_MAX", INT32),
            ("REDUCE_MIN", INT16),
            ("ARGMAX", INT8),
        )
        + (("REDUCE_ALL", BOOL), ("REDUCE_ANY", BOOL))
    )
    shape = _any_shape(g, dtype)
    axis = g.dice.randrange(len(shape))
    if op == "ARGMAX" and len(shape) == 1:
        shape = (*shape, 1)
    x = g.source(shape, dtype)
    nan = {"nan_mode": "PROPAGATE"} if op in ("REDUCE_MAX", "REDUCE_MIN", "ARGMAX") else {}
    y = g.step(op, [x], axis=axis, **nan)
    g.told.append(f"{op} {dtype.name.lower()} {_shape(x, g)} axis {axis}")
    return g.case(y)


def moved(g: Layers) -> Case:
    """Layout operators: a word of 16 bytes each cycle is what a memory gives."""
    op, dtype = (
        g.dice.choice(("TRANSPOSE", "TRANSPOSE", "CONCAT", "SLICE", "PAD", "TILE", "REVERSE")),
        g.dice.choice((INT8, INT16, INT32)),
    )
    shape = _any_shape(g, dtype)
    axis, x = g.dice.randrange(len(shape)), g.source(shape, dtype)
    told = f"axis {axis}"
    match op:
        case "TRANSPOSE":
            perms = list(range(len(shape)))
            g.dice.shuffle(perms)
            y, told = g.add(op, [x], perms=perms), f"perms {perms}"
        case "CONCAT":
            y = g.add(op, [x, g.source(shape, dtype, "y")], axis=axis)
        case "SLICE":
            start = [g.dice.randrange(n) // 2 for n in shape]
            size = [g.dice.randint(1, n - s) for n, s in zip(shape, start, strict=True)]
            y, told = g.add(op, [x, g.shape(start), g.shape(size)]), f"start {start} size {size}"
        case "PAD":
            pads = [g.dice.randint(0, 2) for _ in range(2 * len(shape))]
            y, told = g.add(op, [x, g.shape(pads), g.zero(dtype)]), f"by {pads}"
        case "TILE":
            counts = [g.dice.choice((1, 1, 2)) for _ in shape]
            y, told = g.add(op, [x, g.shape(counts)]), f"by {counts}"
        case _:
            y = g.add(op, [x], axis=axis)
    g.steps = g.size_of(y) * np.dtype(dtype.numpy).itemsize
    g.told.append(f"{op} {dtype.name.lower()} {_shape(x, g)} {told}")
    return g.case(y)


def gather(g: Layers) -> Case:
    dtype, batch = g.dice.choice((INT8, INT16, INT32)), g.dice.choice((1, 1, 4))
    rows, channels, count = g.dice.size(4, 300), g.dice.size(1, 64), g.dice.size(1, 300)
    values = g.source((batch, rows, channels), dtype)
    indices = g.constant(g.values.integers(0, rows, (batch, count)), INT32)
    y = g.add("GATHER", [values, indices])
    g.steps = g.size_of(y) * np.dtype(dtype.numpy).itemsize
    g.told.append(f"GATHER {dtype.name.lower()} {_shape(values, g)} of {count}")
    return g.case(y)


def softmax(g: Layers) -> Case:
    """Makes softmax as the quantizer of this project leaves it: scores less their largest, looked up, and
    divided by their sum.
    """
    rows, width = g.dice.size(1, 300), g.dice.size(4, 300)
    x = g.source((1, rows, width), INT8)
    wide = g.rescale(x, INT32)
    shifted = g.step("SUB", [wide, g.step("REDUCE_MAX", [wide], axis=2, nan_mode="PROPAGATE")])
    powers = g.step("TABLE", [g.rescale(shifted, INT8), g.fixed((256,), INT8)])
    total = g.step("REDUCE_SUM", [g.rescale(powers, INT32)], axis=2)
    share = g.step("MUL", [g.rescale(powers, INT32), total, g.zero(INT8)])
    g.told.append(f"SOFTMAX {_shape(x, g)}")
    return g.case(g.rescale(share, INT8))


def planes(g: Layers) -> Case:
    """An image of planes, a convolution, and perhaps planes again: as ONNX and PyTorch have it."""
    dice, k, stride = g.dice, g.dice.choice((1, 3, 5)), g.dice.choice((1, 2))
    ic, oc = dice.choice((1, 3, 3, 4, 40)), dice.size(8, 64)
    side = math.isqrt(LARGEST // max(ic, oc))
    out = [dice.size(4, max(4, side // stride)) for _ in range(2)]
    h, w = ((n - 1) * stride + k for n in out)
    x = g.source((1, ic, h, w), INT8)
    pixels = g.add("TRANSPOSE", [x], perms=[0, 2, 3, 1])
    operands = [pixels, g.fixed((oc, k, k, ic), INT8), g.fixed((oc,), INT32), g.zero(INT8), g.zero(INT8)]
    window = {"pad": [0] * 4, "stride": [stride] * 2, "dilation": [1, 1]}
    y = g.add("CONV2D", operands, acc_type=INT32, local_bound=False, **window)
    g.products(math.prod(out), ic * k * k, oc)
    g.told.append(f"planes {k}x{k}/{stride} {_shape(x, g)} to {oc}")
    y = g.rescale(y, INT8, per_channel=True)
    if dice.random() < 0.5:
        g.told.append("to planes")
        y = g.add("TRANSPOSE", [y], perms=[0, 3, 1, 2])
    return g.case(y)


def global_pool(g: Layers) -> Case:
    """The largest of all pixels, or of all points, of each channel."""
    channels, points = g.dice.size(8, 512), g.dice.size(16, 2048)
    points = max(1, min(points, LARGEST // channels))
    rows = g.dice.choice((1, max(1, math.isqrt(points)), points))
    columns = points // rows
    x = g.source((1, rows, columns, channels), g.dice.choice((INT8, INT16)))
    window = {"kernel": [rows, columns], "stride": [1, 1], "pad": [0] * 4}
    y = g.step("MAX_POOL2D", [x], nan_mode="PROPAGATE", **window)
    g.steps *= np.dtype(g.graph.tensors[x].dtype.numpy).itemsize
    g.told.append(f"global MAX_POOL2D {_shape(x, g)}")
    return g.case(y)


FAMILIES: dict[str, Callable[[Layers], Case]] = {
    each.__name__: each
    for each in (
        convolution, depthwise, connected, matmul, pool, elementwise, gate, table, reduction, moved, gather, softmax,
        planes, global_pool,
    )
}  # fmt: skip


def random_case(family: str, seed: int) -> Case:
    """Case number `seed` of a family."""
    return FAMILIES[family](Layers(Dice(f"{family} {seed}")))
