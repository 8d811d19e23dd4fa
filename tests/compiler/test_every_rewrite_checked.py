"""No rewrite without a check: each pass and each rule of legalize changes graphs here, and golden computes the same.

`test_legalize_exhaustive.py` has the families of the decompositions; here are those of the passes that choose by cost
or by size, so that a pass that never runs in a test is found by its count.
"""

import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import test_legalize_exhaustive as exhaustive
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.legalize.dead_channels import remove_dead_channels
from tosaic.compiler.legalize.oversize import _RULES
from tosaic.compiler.legalize.passes import PASSES, legalize
from tosaic.compiler.legalize.widened import widen_at_readers
from tosaic.hw.config import CONFIGS
from tosaic.sim.golden import evaluate

ROOT = pathlib.Path(__file__).parents[2]
Make = Callable[[LayerBuilder], str]
BASE = CONFIGS["base"]
TINY = dataclasses.replace(CONFIGS["nano"], name="least memory", am_bytes=128, wm_bytes=32)
"""Two words of weights: a MATMUL of more than eight channels is split."""
REDUCTIONS = ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM", "REDUCE_ALL", "REDUCE_ANY")


def reduction(b: LayerBuilder, op: str, x: str, axis: int) -> str:
    nan = {"nan_mode": "PROPAGATE"} if op in ("REDUCE_MAX", "REDUCE_MIN") else {}
    return b.add(op, [x], axis=axis, **nan)


def operand_type(op: str) -> DType:
    if op in ("REDUCE_ALL", "REDUCE_ANY"):
        return DType.BOOL
    return DType.INT32 if op == "REDUCE_SUM" else DType.INT8


def short_rows() -> Iterator[Make]:
    """Many rows of two to five elements: reduced, chosen from, and put together from single elements."""
    for rows, count, op in itertools.product(
        (127, 128, 129), (2, 3, 4, 5), (*REDUCTIONS, "ARGMAX", "CONCAT")
    ):

        def make(b: LayerBuilder, rows=rows, count=count, op=op) -> str:
            if op == "CONCAT":
                parts = [b.input(f"x{number}", (rows, 1), DType.INT8) for number in range(count)]
                return b.add(op, parts, axis=1)
            if op == "ARGMAX":
                return b.add(op, [b.input("x", (rows, count), DType.INT8)], axis=1, nan_mode="PROPAGATE")
            if op == "REDUCE_SUM":
                x = b.rescale(b.input("x", (rows, count), DType.INT8), DType.INT32, shift=20)
                return b.add(op, [x], axis=1)
            return reduction(b, op, b.input("x", (rows, count), operand_type(op)), 1)

        yield make


def widened() -> Iterator[Make]:
    """Bytes made wider, then reduced and read again: zero points and axes, scales up and down."""
    for shape, axis, op, shift in itertools.product(
        exhaustive.shapes(2), (0, 1), ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_SUM"), (20, 31)
    ):

        def make(b: LayerBuilder, shape=shape, axis=axis, op=op, shift=shift) -> str:
            x = b.input("x", shape, DType.INT8)
            wide = b.rescale(x, DType.INT32, input_zp=-3, shift=shift)
            return b.add("SUB", [wide, reduction(b, op, wide, axis)])

        yield make


def groups() -> Iterator[Make]:
    """Yields operators of two images of planes, made of channels last and read so: one operand or both are turned."""
    shape, back = (1, 2, 3, 4), [0, 3, 1, 2]
    planes = tuple(shape[axis] for axis in back)
    for op, axis, both in itertools.product(
        ("ADD", "CONCAT", "REDUCE_MAX", "PAD", "SLICE", "SELECT", "constant"), (1, 2, 3), (True, False)
    ):

        def make(b: LayerBuilder, op=op, axis=axis, both=both) -> str:
            x, y = (
                b.add("TRANSPOSE", [b.input(name, shape, DType.INT32)], perms=back)
                if both or name == "x"
                else b.input(name, planes, DType.INT32)
                for name in "xy"
            )
            match op:
                case "CONCAT":
                    z = b.add(op, [x, y], axis=axis)
                case "REDUCE_MAX":
                    z = b.add("SUB", [x, b.add(op, [y], axis=axis, nan_mode="PROPAGATE")])
                case "PAD":
                    pads = [int(place == 2 * axis) for place in range(8)]
                    z = b.add(op, [b.add("SUB", [x, y]), b.shape(pads), b.zero_point(DType.INT32)])
                case "SLICE":
                    start = [int(place == axis) for place in range(4)]
                    size = [n - first for n, first in zip(planes, start, strict=True)]
                    z = b.add(op, [b.add("SUB", [x, y]), b.shape(start), b.shape(size)])
                case "SELECT":
                    z = b.add(op, [b.add("GREATER", [x, y]), y, x])
                case "constant":
                    line = [n if place == axis else 1 for place, n in enumerate(planes)]
                    z = b.add("ADD", [b.add("SUB", [x, y]), b.random_constant(line, DType.INT32, -9, 9)])
                case _:
                    z = b.add(op, [x, y])
            return b.add("TRANSPOSE", [b.rescale(z, DType.INT8, shift=58)], perms=[0, 2, 3, 1])

        yield make


def patches() -> Iterator[Make]:
    """Yields every order of three axes, which are split, joined or left, and every order of what they become."""
    for first, shape in itertools.product(
        itertools.permutations(range(3)), ((4, 6, 5), (2, 2, 6, 5), (4, 3, 2, 5), (24, 5), (8, 15))
    ):
        for second in itertools.permutations(range(len(shape))):

            def make(b: LayerBuilder, first=first, shape=shape, second=second) -> str:
                turned = [0] * 3
                for place, axis in enumerate(first):
                    turned[axis] = (4, 6, 5)[place]
                x = b.add("TRANSPOSE", [b.input("x", tuple(turned), DType.INT8)], perms=list(first))
                return b.add("TRANSPOSE", [b.add("RESHAPE", [x, b.shape(shape)])], perms=list(second))

            yield make


def interpolations() -> Iterator[Make]:
    """Yields bilinear images of one pixel to six, by whole factors, from the first pixel on or between them."""
    for (height, width), factors, half, followed in itertools.product(
        itertools.product((1, 2, 5), (1, 3, 4)),
        itertools.product((1, 2, 3), (1, 2, 4)),
        (0, 1),
        (False, True),
    ):

        def make(b: LayerBuilder, size=(height, width), factors=factors, half=half, followed=followed) -> str:
            scale, offset, border = [], [], []
            for extent, factor in zip(size, factors, strict=True):
                scale += [(1 + half) * factor, 1 + half]
                offset.append(half * (1 - factor))
                steps = (extent * factor - 1) * scale[-1]
                border.append(steps - (extent - 1) * scale[-2] + offset[-1])
            x = b.input("x", (2, *size, 3), DType.INT8)
            parameters = [b.shape(values) for values in (scale, offset, border)]
            y = b.add("RESIZE", [x, *parameters], mode="BILINEAR", dtype=DType.INT32)
            if not followed:
                return y
            line = b.constant(np.full((1, 1, 1, 1), 5), DType.INT32)
            return b.rescale(b.add("SUB", [y, line]), DType.INT8, shift=35)

        yield make


def transposed_residuals() -> Iterator[Make]:
    """A sum, wide, of what was transposed and of what is there in both orders, made narrow again."""
    for channels, height, width in exhaustive.shapes(3):

        def make(b: LayerBuilder, channels=channels, height=height, width=width) -> str:
            x = b.input("x", (1, channels, height, width), DType.INT8)
            inner = b.add("TRANSPOSE", [x], perms=[0, 2, 3, 1])
            y = b.rescale(b.conv(inner, channels, (1, 1)), DType.INT16, shift=34)
            back = b.add("TRANSPOSE", [y], perms=[0, 3, 1, 2])
            wide = [b.rescale(each, DType.INT32, shift=30) for each in (back, x)]
            return b.rescale(b.add("ADD", wide), DType.INT8, shift=34)

        yield make


def padded() -> Iterator[Make]:
    """Yields convolutions behind PADs by each row and column, of their zero point or another one, up to three."""
    for op, filling, pads, line in itertools.product(
        ("CONV2D", "DEPTHWISE_CONV2D", "both"),
        (7, -3),
        ((0, 1, 0, 1), (1, 2, 0, 0), (2, 2, 1, 1), (0, 0, 0, 3)),
        (False, True),
    ):

        def make(b: LayerBuilder, op=op, filling=filling, pads=pads, line=line) -> str:
            height, width, channels = 1 if line else 4, 6, 3
            around = [0, 0, *((0, 0) if line else pads[:2]), *pads[2:], 0, 0]
            x = b.input("x", (1, height, width, channels)[int(line) :], DType.INT8)
            amounts = around[2 * int(line) :]
            amounts = around[:2] + around[4:] if line else amounts
            y = b.add("PAD", [x, b.shape(amounts), b.zero_point(DType.INT8, filling)])
            kernel = (1 if line else 3, 3)
            if line:
                y = b.add("RESHAPE", [y, b.shape([1, *b.graph.tensors[y].shape])])
            made = []
            for each in ("CONV2D", "DEPTHWISE_CONV2D") if op == "both" else (op,):
                dense = each == "CONV2D"
                shape = (3, *kernel, channels) if dense else (*kernel, channels, 1)
                weights = b.random_constant(shape, DType.INT8, -9, 9)
                zeros = [b.zero_point(DType.INT8, 7), b.zero_point(DType.INT8)]
                window = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
                operands = [y, weights, b.constant([0] * 3, DType.INT32), *zeros]
                made.append(b.add(each, operands, acc_type=DType.INT32, local_bound=False, **window))
            return made[0] if len(made) == 1 else b.add("SUB", made)

        yield make


def narrowed() -> Iterator[Make]:
    """Yields what is transposed wide and made narrow, in every order of three axes."""
    for perms in itertools.permutations(range(3)):

        def make(b: LayerBuilder, perms=perms) -> str:
            x = b.add("TRANSPOSE", [b.input("x", (2, 3, 4), DType.INT32)], perms=list(perms))
            return b.rescale(b.add("ABS", [x]), DType.INT8, shift=58)

        yield make


def deep_products() -> Iterator[Make]:
    """MATMULs of up to 17 channels where eight fit."""
    for n, h, w, c in itertools.product((1, 2), (1, 2), (1, 2), range(1, 18)):

        def make(b: LayerBuilder, n=n, h=h, w=w, c=c) -> str:
            x, y = b.input("x", (n, h, c), DType.INT8), b.input("y", (n, c, w), DType.INT8)
            return b.add("MATMUL", [x, y, *exhaustive.seven(b)])

        yield make


def long_reductions() -> Iterator[Make]:
    """Yields every reduction along each axis, up to more elements than the memory takes."""
    for op, rows, axis in itertools.product((*REDUCTIONS, "ARGMAX"), (1, 3, 40, 130), (0, 1)):

        def make(b: LayerBuilder, op=op, rows=rows, axis=axis) -> str:
            if op == "ARGMAX":
                return b.add(op, [b.input("x", (rows, 9), DType.INT8)], axis=axis, nan_mode="PROPAGATE")
            return reduction(b, op, b.input("x", (rows, 9), operand_type(op)), axis)

        yield make


def tables() -> Iterator[Make]:
    """All bytes through a chain of two tables, with a CLAMP between them."""
    for low, high in itertools.product((-128, -5, 0), (0, 7, 127)):

        def make(b: LayerBuilder, low=low, high=high) -> str:
            x = b.input("x", (256,), DType.INT8)
            for _ in range(2):
                x = b.add("TABLE", [b.clamp(x, low, high), b.random_constant((256,), DType.INT8, -128, 127)])
            return x

        yield make


def planes() -> Iterator[Make]:
    """Images of a few planes, or of many, to channels last; and the other way round, which stays."""
    for images, count, pixels in itertools.product((1, 3), (1, 2, 3, 5, 8, 20), (7, 480, 529)):
        for perms, shape in (([0, 2, 1], (images, count, pixels)), ([0, 2, 1], (images, pixels, count))):

            def make(b: LayerBuilder, perms=perms, shape=shape) -> str:
                return b.add("TRANSPOSE", [b.input("x", shape, DType.INT8)], perms=perms)

            yield make


def bias_terms() -> Iterator[Make]:
    """Convolutions with a constant added behind them, or subtracted, in every shape that it may have."""
    for op, depthwise, shape in itertools.product(
        ("ADD", "SUB"), (False, True), itertools.product((1,), (1, 2), (1, 2), (1, 3))
    ):

        def make(b: LayerBuilder, op=op, depthwise=depthwise, shape=shape) -> str:
            x = b.input("x", (1, 2, 2, 3), DType.INT8)
            y = b.conv(x, 1 if depthwise else 3, (1, 1), input_zp=7, depthwise=depthwise)
            return b.add(op, [y, b.random_constant(shape, DType.INT32, -(10**6), 10**6)])

        yield make


def byte_sums() -> Iterator[Make]:
    """Sums of rows of bytes; of fewer rows than the array has, sums stay."""
    for shape in ((40, 100), (2, 3, 17, 33), (15, 64)):

        def make(b: LayerBuilder, shape=shape) -> str:
            x = b.input("x", shape, DType.INT8)
            return b.add("REDUCE_SUM", [b.add("CAST", [x], dtype=DType.INT32)], axis=len(shape) - 1)

        yield make


def narrow_constants() -> Iterator[Make]:
    """Products beside an int32 constant of few values, or of many, which is the first operand or the second."""
    for op, first, step in itertools.product(
        ("ADD", "SUB", "MAXIMUM", "MINIMUM"), (False, True), (1, 70_001)
    ):

        def make(b: LayerBuilder, op=op, first=first, step=step) -> str:
            x = [b.input(name, (2, 32, 32), DType.INT8) for name in "xy"]
            product = b.add(
                "MATMUL", [*x, b.zero_point(DType.INT8), b.zero_point(DType.INT8)], dtype=DType.INT32
            )
            most = 127 if step > 1 else 1000
            other = b.constant(step * b.random.integers(-most, most + 1, (1, 32, 32)), DType.INT32)
            return b.add(op, [other, product] if first else [product, other])

        yield make


def parted_channels() -> Iterator[Make]:
    """Convolutions whose channels are read in two parts or three, whole tiles of the array or not."""
    for sizes, kernel in itertools.product(((16, 16), (32, 16, 16), (24, 24)), (1, 3)):

        def make(b: LayerBuilder, sizes=sizes, kernel=kernel) -> str:
            x = b.conv(
                b.input("x", (1, 16, 16, 5), DType.INT8), sum(sizes), (kernel, kernel), pad=(1, 1, 1, 1)
            )
            x, first, parts = b.rescale(x, DType.INT8, per_channel=True), 0, list[str]()
            *outer, _ = b.graph.tensors[x].shape
            for size in sizes:
                part = b.add("SLICE", [x, b.shape([0, 0, 0, first]), b.shape([*outer, size])])
                parts.append(b.clamp(part, first - 90, 80))
                first += size
            return b.add("CONCAT", parts[::-1], axis=3)

        yield make


def rotated() -> Iterator[Make]:
    """Yields halves, or thirds, in another order with the first one changed, times a line, beside what they are of."""
    for parts, axis, both, stored in itertools.product(
        (2, 3), (0, 1, 2), (True, False), (DType.INT8, DType.INT32)
    ):

        def make(b: LayerBuilder, parts=parts, axis=axis, both=both, stored=stored) -> str:
            shape = (6, 6, 6)
            size = [extent // parts if place == axis else extent for place, extent in enumerate(shape)]
            x, found = b.input("x", shape, DType.INT16), list[str]()
            for part in range(parts)[::-1]:
                start = [part * size[axis] if place == axis else 0 for place in range(3)]
                found.append(b.add("SLICE", [x, b.shape(start), b.shape(size)]))
            found[0] = b.rescale(found[0], DType.INT16, shift=31)
            lines = [b.random_constant((1, 6, 6), DType.INT16, -3000, 3000) for _ in range(2)]
            halves = b.add("CONCAT", found, axis=axis)
            y = b.add("MUL", [halves, lines[0], b.zero_point(DType.INT8)])
            if both:
                y = b.add("ADD", [b.add("MUL", [x, lines[1], b.zero_point(DType.INT8)]), y])
            return y if stored is DType.INT32 else b.rescale(y, stored, shift=49)

        yield make


def picked() -> Iterator[Make]:
    """Yields a box of what is put together, with a RESHAPE between: of one operand, of all of one, or of two."""
    for axis, first, size, between in itertools.product((0, 1), (0, 1, 2, 3), (1, 2), (True, False)):

        def make(b: LayerBuilder, axis=axis, first=first, size=size, between=between) -> str:
            shape = tuple(2 if place == axis else 3 for place in range(3))
            parts = [b.clamp(b.input(name, shape, DType.INT8), -90, 80) for name in "xyz"]
            y = b.add("CONCAT", parts, axis=axis)
            start, sizes = [0, 0, 0], list(b.graph.tensors[y].shape)
            start[axis], sizes[axis] = first, size
            if between:
                y = b.add("RESHAPE", [y, b.shape([1, *b.graph.tensors[y].shape])])
                start, sizes = [0, *start], [1, *sizes]
            return b.add("SLICE", [y, b.shape(start), b.shape(sizes)])

        yield make


FAMILIES = {
    "bias terms": (bias_terms, BASE),
    "planes": (planes, BASE),
    "short rows": (short_rows, BASE),
    "widened": (widened, BASE),
    "transposed residuals": (transposed_residuals, BASE),
    "groups": (groups, BASE),
    "patches": (patches, BASE),
    "interpolations": (interpolations, BASE),
    "narrowed": (narrowed, BASE),
    "padded": (padded, BASE),
    "deep products": (deep_products, TINY),
    "long reductions": (long_reductions, exhaustive.SMALL),
    "tables": (tables, BASE),
    "pools": (exhaustive.pools, exhaustive.SMALL),
    "convolutions": (exhaustive.convolutions, exhaustive.SMALL),
    "volumes": (exhaustive.volumes, exhaustive.CONFIG),
    "few rows": (exhaustive.few_rows, exhaustive.CONFIG),
    "byte sums": (byte_sums, BASE),
    "parted channels": (parted_channels, BASE),
    "narrow constants": (narrow_constants, BASE),
    "rotated": (rotated, BASE),
    "picked": (picked, BASE),
}
SPLIT = "split what exceeds the memory"
CHANGED = {
    "bias terms": ("add constants to biases", 8),
    "planes": ("turn images of planes on the array", 5),
    "short rows": ("turn rows of a few elements", 56),
    "widened": ("widen bytes where they are read", 72),
    "transposed residuals": ("work in the order of axes that turns least", 16),
    "groups": ("work in the order of axes that turns least", 42),
    "patches": ("turn once what is turned twice", 265),
    "interpolations": ("interpolate by convolutions", 288),
    "padded": ("pad in convolutions", 15),
    "narrowed": ("turn tensors where they are smallest", 5),
    "deep products": (SPLIT, 72),
    "long reductions": (SPLIT, 19),
    "tables": ("look chains of tables up at once", 9),
    "pools": ("pool where it takes the fewest cycles", 1),
    "convolutions": (SPLIT, 30),
    "volumes": ("decompose operators that the machine has not", 108),
    "few rows": ("multiply few rows by matrices as they are", 36),
    "byte sums": ("sum rows of bytes on the array", 2),
    "parted channels": ("convolve by parts of channels", 4),
    "narrow constants": ("add constants of few values as bytes", 8),
    "rotated": ("put together behind what reads parts", 12),
    "picked": ("pick from what is put together", 24),
}
"""For each family, a pass that it is for, and how many of its graphs that pass changes."""
FOLDS = {"fold constants, sink reshapes", "fold what these left"}
"""Passes that run `normalise`, which most families need."""
OWN_EXHAUSTIVE = {"pools", "convolutions", "volumes", "few rows"}
"""Families of the other file, which compares their results."""


def changes(graph: Graph, config) -> tuple[Graph, dict[str, set[str]]]:
    """The legalized graph, and by pass the operators that it has put others in place of."""
    before, found = [graph], collections.defaultdict(set)

    def on_pass(name: str, after: Graph) -> None:
        kept = {(each.op, *each.outputs, *each.inputs) for each in after.operators}
        gone = {each.op for each in before[0].operators if (each.op, *each.outputs, *each.inputs) not in kept}
        if gone or len(after.operators) != len(before[0].operators):
            found[name] |= gone
        before[0] = after

    return legalize(graph, config, on_pass), found


def run_family(name: str) -> tuple[collections.Counter, dict[str, set[str]]]:
    """How many graphs each pass changes, and which operators; every graph computes what it did."""
    family, config = FAMILIES[name]
    counts, operators = collections.Counter(), collections.defaultdict(set)
    for number, make in enumerate(family()):
        graph = exhaustive.build(make)
        legal, found = changes(graph, config)
        if name not in OWN_EXHAUSTIVE:
            values = feeds(graph, number)
            wanted, got = evaluate(graph, values), evaluate(legal, values)
            for output, expected in wanted.items():
                np.testing.assert_array_equal(got[output], expected, f"{name} {number}: {graph.operators}")
        counts.update(found.keys())
        for each, gone in found.items():
            operators[each] |= gone
    return counts, operators


def test_every_pass_and_every_rule_for_size_changes_graphs() -> None:
    changed, split = {}, set()
    folded = set()
    for name, (step, _) in CHANGED.items():
        counts, operators = run_family(name)
        changed[name] = (step, counts[step])
        split |= operators[SPLIT]
        folded |= FOLDS & counts.keys()
    assert changed == CHANGED
    assert {step.name for step in PASSES if not step.turns_ports} == {
        step for step, _ in CHANGED.values()
    } | folded
    assert split == set(_RULES)


def test_dead_channels_of_every_small_kernel() -> None:
    """A convolution some of whose channels are constant, for every set of them and every weight of the next one."""
    for dead, kernel in itertools.product(itertools.product((0, 1), repeat=3), (1, 2)):
        b = LayerBuilder(3)
        x = b.input("x", (1, 3, 3, 2), DType.INT8)
        weights = b.random.integers(-100, 101, (3, kernel, kernel, 2))
        weights[[channel for channel, none in enumerate(dead) if none]] = 0
        operands = [b.constant(weights, DType.INT8), exhaustive.bias(b, 3), *exhaustive.seven(b)]
        shape = {"pad": [0] * 4, "stride": [1, 1], "dilation": [1, 1]}
        y = b.add("CONV2D", [x, *operands], acc_type=DType.INT32, local_bound=False, **shape)
        b.output(b.conv(b.rescale(y, DType.INT8, shift=40), 2, (2, 2)))
        graph = b.finish()
        values = feeds(graph, kernel)
        wanted, found = evaluate(graph, values), evaluate(remove_dead_channels(graph, 1), values)
        for output, expected in wanted.items():
            np.testing.assert_array_equal(found[output], expected)


PARAMETERS = [
    # Multiplier, shift, zero points of input and result: up, down, to almost nothing, and the ends of each field.
    (1 << 30, 30, 0, 0),
    ((1 << 31) - 1, 31, -128, 127),
    (1 << 30, 20, 127, 0),
    (1_518_500_250, 35, 3, -7),
    ((1 << 30) + 1, 38, -5, 100),
    (1 << 30, 62, 0, -128),
]


def rescaled(b: LayerBuilder, x: str, dtype: DType, numbers: tuple[int, int, int, int], mode: str) -> str:
    """RESCALE by numbers that are given."""
    multiplier, shift, input_zp, output_zp = numbers
    source = b.graph.tensors[x].dtype
    operands = [b.constant([multiplier], DType.INT32), b.constant([shift], DType.INT8)]
    operands += [b.zero_point(source, input_zp if source is DType.INT8 else 0)]
    operands += [b.zero_point(dtype, output_zp if dtype is DType.INT8 else 0)]
    plain = {"scale32": True, "per_channel": False, "input_unsigned": False, "output_unsigned": False}
    return b.add("RESCALE", [x, *operands], dtype=dtype, rounding_mode=mode, **plain)


@pytest.mark.parametrize("op", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes_of_all_pairs_of_bytes_before_they_are_wide(op: str) -> None:
    """The side condition of `widened`: a RESCALE keeps the order of bytes, whatever its numbers are."""
    pairs = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)), -1).reshape(-1, 2)
    for numbers, mode in itertools.product(PARAMETERS, ("SINGLE_ROUND", "DOUBLE_ROUND")):
        if mode == "DOUBLE_ROUND" and numbers[1] < 31:
            continue
        b = LayerBuilder(1)
        wide = rescaled(b, b.input("x", pairs.shape, DType.INT8), DType.INT32, numbers, mode)
        b.output(b.add("SUB", [wide, reduction(b, op, wide, 1)]))
        graph = b.finish()
        rewritten, values = widen_at_readers(graph), {"x": pairs.astype(np.int8)}
        extreme = next(each for each in rewritten.operators if each.op == op)
        assert rewritten.tensors[extreme.outputs[0]].dtype is DType.INT8
        (name,) = graph.outputs
        np.testing.assert_array_equal(evaluate(rewritten, values)[name], evaluate(graph, values)[name])


def test_all_bytes_through_fused_rescales_and_clamps() -> None:
    """The emulator runs what fuse made of RESCALE, CLAMP, RESCALE: all bytes, both roundings, all zero points above."""
    b = LayerBuilder(1)
    x = b.input("x", (1, 1, 1, 256), DType.INT8)
    for numbers, mode in itertools.product(PARAMETERS, ("SINGLE_ROUND", "DOUBLE_ROUND")):
        if mode == "DOUBLE_ROUND" and numbers[1] < 31:
            continue
        wide = rescaled(b, x, DType.INT16, numbers, mode)
        for low, high in ((-100, 77), (-(1 << 15), (1 << 15) - 1)):
            back = (1 << 30, 32, 0, numbers[3])
            b.output(rescaled(b, b.clamp(wide, low, high), DType.INT8, back, mode))
    graph = b.finish()
    assert len(graph.outputs) == 20
    assert_equal_to_golden(graph, "nano", {"x": np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 1, 256)})


HELPERS = {
    "legalize": {
        "decompose", "passes", "part_rewriting", "rewriting", "verify",  # they run the rewrites
        "integers",  # refuses
        "run_time_arithmetic", "run_time_parameters",  # what the run-time rewrites are made of, and their list
    },
    "fuse": {
        "drain_cost", "fold", "layer", "layer_building", "windows",  # choose and describe; they change no arithmetic
    },
}  # fmt: skip


@pytest.mark.parametrize("stage", HELPERS)
def test_every_rewrite_has_a_row_in_the_page(stage: str) -> None:
    """A file that is new in legalize or fuse is in docs/records/rewrites.md, or known to rewrite nothing."""
    table = (ROOT / "docs" / "records" / "rewrites.md").read_text()
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    named = {word for row in rows for word in re.findall(r"\w+", row)}
    files = {path.stem for path in (ROOT / "compiler" / stage).glob("*.py")} - {"__init__"}
    assert HELPERS[stage] <= files
    assert sorted(files - HELPERS[stage] - named) == []
