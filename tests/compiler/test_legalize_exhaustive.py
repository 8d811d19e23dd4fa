"""The passes of legalize on every small shape: golden computes the same of the graph before and behind them."""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from control_graphs import Control, finished, plus
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.passes import legalize
from tosaic.hw.config import CONFIGS
from tosaic.sim.golden import evaluate

CONFIG = CONFIGS["nano"]
SMALL = dataclasses.replace(CONFIG, name="little memory", am_bytes=128, wm_bytes=64)
"""A memory so small that operators of a few elements exceed it. No machine is as small; only the splits look at
it."""
Make = Callable[[LayerBuilder], str]
EXTENTS = (1, 2, 3)


def shapes(rank: int, most: int = 3) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(1, most + 1), repeat=rank)


def build(make: Make) -> Graph:
    builder = LayerBuilder(7)
    builder.output(make(builder))
    return builder.finish()


def seven(b: LayerBuilder) -> list[str]:
    """Zero points of input and weights."""
    return [b.zero_point(DType.INT8, 7), b.zero_point(DType.INT8, -3)]


def bias(b: LayerBuilder, channels: int) -> str:
    return b.random_constant((channels,), DType.INT32, -5000, 5000)


def weights(b: LayerBuilder, *shape: int) -> str:
    return b.random_constant(shape, DType.INT8, -128, 127)


def transposes() -> Iterator[Make]:
    """Two permutations with an operator between them."""
    for shape in shapes(3):
        for first, second in itertools.product(itertools.permutations(range(3)), repeat=2):

            def make(b: LayerBuilder, shape=shape, first=first, second=second) -> str:
                turned = b.add("TRANSPOSE", [b.input("x", shape, DType.INT8)], perms=list(first))
                return b.add("TRANSPOSE", [b.clamp(turned, -90, 77)], perms=list(second))

            yield make


def reshapes() -> Iterator[Make]:
    """Yields reshapes between every two shapes of equally many elements, with an operator in between and one
    after."""
    by_size = collections.defaultdict(list)
    for rank in (1, 2, 3):
        for shape in shapes(rank):
            by_size[int(np.prod(shape))].append(shape)
    for same in by_size.values():
        for before, after in itertools.product(same, repeat=2):

            def make(b: LayerBuilder, before=before, after=after) -> str:
                x = b.clamp(b.input("x", before, DType.INT8), -100, 100)
                y = b.add("RESHAPE", [x, b.shape(after)])
                return b.add("REVERSE", [y], axis=len(after) - 1)

            yield make


def transpose_convolutions() -> Iterator[Make]:
    for ih, iw, kh, kw in shapes(4):
        for stride, pad in itertools.product((1, 2, 3), (-1, 0, 1)):
            if (
                pad <= -min(kh, kw)
                or (ih - 1) * stride + 2 * pad + kh < 1
                or (iw - 1) * stride + pad + kw < 1
            ):
                continue

            def make(b: LayerBuilder, ih=ih, iw=iw, kh=kh, kw=kw, stride=stride, pad=pad) -> str:
                operands = [b.input("x", (1, ih, iw, 2), DType.INT8), weights(b, 3, kh, kw, 2), bias(b, 3)]
                attributes = {"acc_type": DType.INT32, "local_bound": False}
                return b.add(
                    "TRANSPOSE_CONV2D",
                    [*operands, *seven(b)],
                    out_pad=[pad, pad, 0, pad],
                    stride=[stride, 3 - stride or 1],
                    **attributes,
                )

            yield make


def volumes() -> Iterator[Make]:
    """CONV3D: image, kernel, padding."""
    for depth, height, kd, kh, pad in itertools.product(EXTENTS, EXTENTS, EXTENTS, EXTENTS, (0, 1)):
        if depth + 2 * pad < kd or height + pad < kh:
            continue

        def make(b: LayerBuilder, depth=depth, height=height, kd=kd, kh=kh, pad=pad) -> str:
            operands = [
                b.input("x", (1, depth, height, 2, 2), DType.INT8),
                weights(b, 3, kd, kh, 1, 2),
                bias(b, 3),
            ]
            return b.add(
                "CONV3D",
                [*operands, *seven(b)],
                acc_type=DType.INT32,
                local_bound=False,
                pad=[pad, pad, 0, pad, 0, 0],
                stride=[1, 1, 1],
                dilation=[1, 1, 1],
            )

        yield make


def products() -> Iterator[Make]:
    """MATMUL of rows, columns and batches."""
    for n, h, c, w in shapes(4):

        def make(b: LayerBuilder, n=n, h=h, c=c, w=w) -> str:
            x, y = b.input("x", (n, h, c), DType.INT8), b.input("y", (n, c, w), DType.INT8)
            return b.add("MATMUL", [x, y, *seven(b)])

        yield make


def wide_products() -> Iterator[Make]:
    """The same of int16, by byte planes."""
    for n, h, c, w in shapes(4):

        def make(b: LayerBuilder, n=n, h=h, c=c, w=w) -> str:
            x, y = b.input("x", (n, h, c), DType.INT16), b.input("y", (n, c, w), DType.INT16)
            return b.add("MATMUL", [x, y, b.zero_point(DType.INT16), b.zero_point(DType.INT16)])

        yield make


def resizes() -> Iterator[Make]:
    scales = [(1, 1), (2, 1), (3, 1), (1, 2), (3, 2)]
    for mode, ih, iw, (up, down), offset in itertools.product(
        ("NEAREST", "BILINEAR"), EXTENTS, EXTENTS, scales, (-1, 0, 1)
    ):
        if ((ih - 1) * up - offset) % down or ((iw - 1) * up - offset) % down:
            continue
        if min((ih - 1) * up - offset, (iw - 1) * up - offset) < 0:
            continue

        def make(b: LayerBuilder, mode=mode, ih=ih, iw=iw, up=up, down=down, offset=offset) -> str:
            operands = [b.input("x", (1, ih, iw, 2), DType.INT8)]
            operands += [b.shape((up, down, up, down)), b.shape((offset, offset)), b.shape((0, 0))]
            dtype = DType.INT32 if mode == "BILINEAR" else DType.INT8
            return b.add("RESIZE", operands, mode=mode, dtype=dtype)

        yield make


def pools() -> Iterator[Make]:
    """Windows that reach over the whole image and over its edges."""
    for op, ih, iw, kh, kw, pad in itertools.product(
        ("MAX_POOL2D", "AVG_POOL2D"), EXTENTS, EXTENTS, EXTENTS, EXTENTS, (0, 1)
    ):
        if ih + pad < kh or iw + pad < kw or pad >= min(kh, kw):
            continue

        def make(b: LayerBuilder, op=op, ih=ih, iw=iw, kh=kh, kw=kw, pad=pad) -> str:
            window = {"kernel": [kh, kw], "stride": [1, 1], "pad": [pad, 0, 0, pad]}
            x = b.input("x", (1, ih, iw, 3), DType.INT8)
            if op == "MAX_POOL2D":
                return b.add(op, [x], nan_mode="PROPAGATE", **window)
            return b.add(op, [x, *seven(b)], acc_type=DType.INT32, **window)

        yield make


def reductions() -> Iterator[Make]:
    """Yields reductions along each axis, with up to more elements after the axis than the little memory takes."""
    for op, shape, axis in itertools.product(("REDUCE_MAX", "REDUCE_SUM", "ARGMAX"), shapes(2, 4), range(3)):

        def make(b: LayerBuilder, op=op, shape=shape, axis=axis) -> str:
            dtype = DType.INT32 if op == "REDUCE_SUM" else DType.INT8
            nan = {} if op == "REDUCE_SUM" else {"nan_mode": "PROPAGATE"}
            return b.add(op, [b.input("x", (*shape, 5), dtype)], axis=axis, **nan)

        yield make


def convolutions() -> Iterator[Make]:
    """Kernels that exceed the little memory."""
    for depthwise, ih, iw, kh, kw, dilation in itertools.product(
        (False, True), (1, 3), EXTENTS, EXTENTS, EXTENTS, (1, 2)
    ):
        if (kh - 1) * dilation >= ih + 1 or (kw - 1) * dilation >= iw + 1:
            continue

        def make(b: LayerBuilder, depthwise=depthwise, ih=ih, iw=iw, kh=kh, kw=kw, dilation=dilation) -> str:
            return b.conv(
                b.input("x", (1, ih, iw, 5), DType.INT8),
                2,
                (kh, kw),
                dilation=(dilation, dilation),
                pad=(0, 1, 1, 0),
                input_zp=4,
                depthwise=depthwise,
            )

        yield make


def few_rows() -> Iterator[Make]:
    """MATMULs of one row, of a few and of too many, with what a TRANSPOSE makes."""
    for n, h, c, w in (*shapes(4), *itertools.product((1, 2), (1, 2, 3), (8, 12), (15, 16, 17))):

        def make(b: LayerBuilder, n=n, h=h, c=c, w=w) -> str:
            keys = b.add("TRANSPOSE", [b.input("keys", (n, w, c), DType.INT8)], perms=[0, 2, 1])
            return b.add("MATMUL", [b.input("x", (n, h, c), DType.INT8), keys, *seven(b)])

        yield make


def idle() -> Iterator[Make]:
    """Operators that do nothing, or nothing for some shapes."""
    for shape, axis, change in itertools.product(
        shapes(3), range(3), ("SLICE", "PAD", "TILE", "REVERSE", "CONCAT")
    ):

        def make(b: LayerBuilder, shape=shape, axis=axis, change=change) -> str:
            x = b.input("x", shape, DType.INT8)
            match change:
                case "SLICE":
                    small = [1 if each == axis else size for each, size in enumerate(shape)]
                    y = b.add("SLICE", [x, b.shape((0, 0, 0)), b.shape(small)])
                case "PAD":
                    pads = [int(each == 2 * axis and shape[0] > 1) for each in range(6)]
                    y = b.add("PAD", [x, b.shape(pads), b.zero_point(DType.INT8, 5)])
                case "TILE":
                    y = b.add("TILE", [x, b.shape([shape[1] if each == axis else 1 for each in range(3)])])
                case "REVERSE":
                    y = b.add("REVERSE", [x], axis=axis)
                case _:
                    y = b.add("CONCAT", [x] * shape[2], axis=axis)
            return b.add("ABS", [b.add("CAST", [y], dtype=DType.INT32)])

        yield make


def run_time_zero_points() -> Iterator[Make]:
    """Products and RESCALEs whose zero points are inputs."""
    for n, h, c, w in shapes(4):

        def make(b: LayerBuilder, n=n, h=h, c=c, w=w) -> str:
            x, y = b.input("x", (n, h, c), DType.INT8), b.input("y", (n, c, w), DType.INT8)
            zero_points = [b.input(name, (1,), DType.INT8) for name in ("a_zp", "b_zp")]
            return b.add("MATMUL", [x, y, *zero_points])

        yield make


CASES = {
    "few rows": (few_rows, CONFIG, 117),
    "idle": (idle, CONFIG, 405),
    "run-time zero points": (run_time_zero_points, CONFIG, 81),
    "transposes": (transposes, CONFIG, 972),
    "reshapes": (reshapes, CONFIG, 197),
    "transpose convolutions": (transpose_convolutions, CONFIG, 576),
    "volumes": (volumes, CONFIG, 108),
    "products": (products, CONFIG, 81),
    "resizes": (resizes, CONFIG, 156),
    "pools": (pools, CONFIG, 122),
    "pools in little memory": (pools, SMALL, 122),
    "products in little memory": (products, SMALL, 81),
    "reductions": (reductions, CONFIG, 144),
    "reductions in little memory": (reductions, SMALL, 144),
    "convolutions in little memory": (convolutions, SMALL, 110),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.nightly
def test_every_small_shape(name: str) -> None:
    family, config, count = CASES[name]
    made = 0
    for make in family():
        graph = build(make)
        values = feeds(graph, made)
        wanted = evaluate(graph, values)
        found = evaluate(legalize(graph, config), values)
        for output, expected in wanted.items():
            np.testing.assert_array_equal(found[output], expected, f"{graph.operators}")
        made += 1
    assert made == count


@pytest.mark.long
@pytest.mark.nightly
def test_every_small_product_of_int16() -> None:
    """The emulator computes them: the graph has products of int48, which golden has not."""
    for number, make in enumerate(wide_products()):
        graph = build(make)
        assert_equal_to_golden(graph, "small", feeds(graph, number))


@pytest.mark.parametrize("double", [False, True])
def test_every_byte_through_a_chain_of_tables(double: bool) -> None:
    """What `tabulate` looks up at once: RESCALE to int16 or int32 and back, CLAMP, TABLE, for all 256 values."""
    for wide, zero_point in itertools.product((DType.INT16, DType.INT32), (-128, 0, 127)):
        b = LayerBuilder(zero_point + 128)
        x = b.input("x", (256,), DType.INT8)
        up = b.rescale(x, wide, input_zp=zero_point, shift=31, double=double)
        y = b.clamp(b.rescale(up, DType.INT8, output_zp=zero_point, shift=31, double=double), -120, 119)
        b.output(b.add("TABLE", [y, b.random_constant((256,), DType.INT8, -128, 127)]))
        graph = b.finish()
        values = {"x": np.arange(-128, 128, dtype=np.int8)}
        name = graph.outputs[0]
        np.testing.assert_array_equal(
            evaluate(legalize(graph, CONFIG), values)[name], evaluate(graph, values)[name]
        )


def test_every_small_quotient() -> None:
    """INTDIV by multiplications: all pairs of small numbers, powers of two, their neighbours, and the ends of int32."""
    numbers = {*range(-17, 18), (1 << 31) - 1, -(1 << 31)}
    numbers |= {sign * (1 << bit) + near for bit in range(5, 31) for sign in (-1, 1) for near in (-1, 0, 1)}
    pairs = [(n, d) for n in sorted(numbers) for d in sorted(numbers - {0}) if (n, d) != (-(1 << 31), -1)]
    b = LayerBuilder(1)
    names = [b.input(name, (len(pairs),), DType.INT32) for name in "nd"]
    b.output(b.add("INTDIV", names))
    graph = b.finish()
    n, d = np.array(pairs, np.int32).T
    found = evaluate(legalize(graph, CONFIG), {"n": n, "d": d})[graph.outputs[0]]
    wanted = [abs(n) // abs(d) * (1 if (n < 0) == (d < 0) else -1) for n, d in pairs]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("taken", [False, True])
def test_every_branch(taken: bool) -> None:
    """COND_IF where it stands: each number of results, the branches in either order."""
    for count, swapped in itertools.product((1, 2, 3), (False, True)):
        build = Control()
        states = [build.input(f"x{number}", (2, 3), DType.INT32) for number in range(count)]
        condition = build.input("condition", (), DType.BOOL)
        bodies = (plus(5), plus(-9))
        results = build.choose(condition, states, *(bodies[::-1] if swapped else bodies))
        graph = finished(build, results)
        values = feeds(graph, count) | {"condition": np.array(taken)}
        wanted, found = evaluate(graph, values), evaluate(legalize(graph, CONFIG), values)
        for output in graph.outputs:
            np.testing.assert_array_equal(found[output], wanted[output])
