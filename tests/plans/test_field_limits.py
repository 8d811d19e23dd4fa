"""Sizes up to which a layer keeps its form: what instructions' fields hold, and what the memories do."""

import dataclasses

import numpy as np
import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.expression import Load, Node, range_of
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.planes import convolution_of_planes
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.split_kernel import split_kernel
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.search import Choices, plans_of, task_of
from tosaic.compiler.tile.im2col import fits_fields
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Op, Opcode, largest

BASE = get_config("base")
LARGE = dataclasses.replace(BASE, am_bytes=1 << 24)
INT32 = (-(1 << 31), (1 << 31) - 1)
FITTING = Window(1, 8, 8, 4, 6, 6, 3, 3, 1, 1, 1, 1, 0, 0, View("x", 0, 32, 256))
X_STEP, ROW_BYTES = largest(Opcode.ARRAY_WINDOW, "x_step"), largest(Opcode.ARRAY_INPUT, "row_bytes")
CHUNKS = largest(Opcode.ARRAY_KERNEL, "chunks")


@pytest.mark.parametrize(
    "sizes, field, limit",
    [
        ({}, "oh", MAX_COUNT),
        ({}, "ow", MAX_COUNT),
        (dict(ic=1, kw=1), "ih", min(MAX_COUNT, ROW_BYTES)),
        (dict(kw=1, kh=1, ih=1), "ic", min(X_STEP, ROW_BYTES, CHUNKS * BASE.columns)),
        (dict(kw=1, kh=1, ih=1, ic=64), "sy", X_STEP // 64),
        (dict(kw=1, ih=1, ic=64), "kh", CHUNKS * BASE.columns // 64),
        (dict(kw=2, ic=3), "ih", min(MAX_COUNT, ROW_BYTES // 6)),
        ({}, "dy", 1),
        ({}, "dx", 1),
        (dict(kw=1), "dx", 100),
        (dict(kh=1), "dy", 100),
    ],
)
def test_fields_of_convolutions_by_im2col(sizes: dict[str, int], field: str, limit: int) -> None:
    window = dataclasses.replace(FITTING, **sizes)
    assert fits_fields(dataclasses.replace(window, **{field: limit}), LARGE)
    if limit != 100:
        assert not fits_fields(dataclasses.replace(window, **{field: limit + 1}), LARGE)


def test_a_column_by_im2col_takes_a_quarter_of_the_memory() -> None:
    quarter = BASE.am_bytes // 4
    for rows, fits in ((quarter // 64, True), (quarter // 64 + 1, False)):
        assert fits_fields(dataclasses.replace(FITTING, ih=rows, kw=1, ic=64), BASE) == fits


def is_split(config: str, shape: tuple[int, int, int], kernel: tuple[int, int], **options) -> bool:
    build = LayerBuilder(1)
    x = build.input("x", (1, *shape), DType.INT8)
    build.output(build.conv(x, 1, kernel, **options))
    return split_kernel(Rewriting(build.graph, build.graph.operators[0]), get_config(config))


@pytest.mark.parametrize(
    "config, shape, columns, options, rows",
    [
        ("small,wm_bytes=4K", (400, 3, 8), 1, {}, 64),
        ("small,wm_bytes=4K", (400, 9, 5), 3, {}, 32),
        ("small,wm_bytes=4K", (400, 9, 5), 3, dict(dilation=(1, 2)), 21),
        ("small,wm_bytes=4K", (400, 9, 16), 3, dict(dilation=(1, 2)), 10),
        ("small,wm_bytes=4K", (400, 9, 5), 3, dict(depthwise=True), 21),
        ("small,am_bytes=4K", (400, 4, 16), 4, {}, 16),
        ("small,am_bytes=4K", (400, 4, 16), 4, dict(dilation=(2, 1)), 8),
        ("small,am_bytes=4K", (400, 4, 16), 4, dict(depthwise=True), 32),
        ("small,am_bytes=4K,wm_bytes=32K", (400, 1, 7), 1, dict(depthwise=True), 146),
    ],
)
def test_rows_of_a_kernel_that_fits(config, shape, columns, options, rows) -> None:
    """Its weights fit the weight memory, and what it covers of the image a quarter of the activation memory."""
    found = [n for n in range(1, 160) if not is_split(config, shape, (n, columns), **options)]
    assert found == list(range(1, rows + 1))


@pytest.mark.parametrize("ends", [(0, INT32[1]), (INT32[0], 5), INT32, (-3, 4)])
def test_ranges_that_touch_the_ends_of_int32_need_not_wrap(ends: tuple[int, int]) -> None:
    value = Node(Op.MOV, Load("a", Element.INT32), None, clamp=ends, wrap32=True)
    assert range_of(value) == ends
    assert range_of(Node(Op.ADD, value, Load("b", Element.INT8), wrap32=True)) == (
        INT32 if ends != (-3, 4) else (-131, 131)
    )


@pytest.mark.parametrize("channels", [1, 16])
def test_columns_of_a_kernel_as_far_apart_as_a_field_tells(channels: int) -> None:
    """Those that are further apart become kernels of one column, whose distance is nowhere."""
    limit = largest(Opcode.ARRAY_KERNEL, "run_step")
    for distance, split in ((limit // channels, False), (limit // channels + 1, True)):
        options = dict(dilation=(1, distance), pad=(0, 0, distance, distance))
        assert is_split("base", (1, 4, channels), (1, 2), **options) == split


def planes(weight: np.ndarray, bias: int) -> tuple[list[int], list[int]]:
    """The biases of the planes of a DEPTHWISE_CONV2D of int16, and the constants that are added to them."""
    build = LayerBuilder(1)
    operands = [
        build.input("x", (1, 300, 300, 1), DType.INT16),
        build.constant(weight[..., None, None], DType.INT8),
        build.constant(np.array([bias]), DType.INT48),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    attributes = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT48, local_bound=False)
    build.output(build.add("DEPTHWISE_CONV2D", operands, **attributes))
    new = Rewriting(build.graph, build.graph.operators[0])
    assert convolution_of_planes(new)
    biases, added = (
        [build.graph.tensors[each.inputs[place]].data for each in new.operators if each.op == op]
        for op, place in (("DEPTHWISE_CONV2D", 2), ("ADD", 1))
    )
    return [int(each[0]) for each in biases], [int(each.item()) for each in added if each is not None]


@pytest.mark.parametrize("bias, inside", [(0, True), (127, True), (128, False), (255, False), (-1, False)])
def test_a_bias_beside_sums_of_the_low_plane_that_nearly_fill_int32(bias: int, inside: bool) -> None:
    """273 * 241 weights of -128 times 255 are 2^31 - 128; the low byte of the bias is added to them."""
    found = planes(np.full((273, 241), -128), bias)
    assert found == (([bias >> 8, bias & 255], []) if inside else ([0, 0], [bias]))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bias_that_nearly_fills_int32_beside_sums_of_the_high_plane(sign: int) -> None:
    """A weight of 3 times 128."""
    weight, most = np.array([[3]]), (1 << 31) - 1 - 3 * 128
    assert planes(weight, sign * most * 256) == ([sign * most, 0], [])
    assert planes(weight, sign * (most + 1) * 256) == ([0, 0], [sign * (most + 1) * 256])


INT8, UINT8 = Load("a", Element.INT8), Load("b", Element.UINT8)


@pytest.mark.parametrize(
    "node, low, high",
    [
        (Node(Op.MOV, INT8, a_zp=3, out_zp=-10), -141, 114),
        (Node(Op.ADD, INT8, UINT8, out_zp=1), -127, 383),
        (Node(Op.MUL, INT8, UINT8), -32640, 32386),
        (Node(Op.MUL, INT8, UINT8, shift=4), -2040, 2025),
        (Node(Op.RESCALE, INT8, multiplier=3, shift=1), -192, 191),
        (Node(Op.RESCALE, INT8, UINT8, multiplier=3, shift=1), -192, 446),
        (Node(Op.RESCALE, INT8, INT8, multiplier=3, shift=1, a_zp=8), -332, 306),
        (Node(Op.RESCALE, INT8, multiplier=-3, shift=2), -96, 97),
        (Node(Op.RESCALE, INT8, multiplier=1 << 30, shift=2), INT32[0], INT32[1]),
        (Node(Op.RESCALE, INT8, UINT8, per_channel=True), INT32[0], INT32[1] + 255),
        (Node(Op.MOV, INT8, clamp=(-5, 300)), -5, 127),
    ],
)
def test_ranges_of_results(node: Node, low: int, high: int) -> None:
    """One more than the largest product where it is shifted: it is rounded."""
    assert range_of(node) == (low, high)


@pytest.mark.parametrize("shape, fits", [((257, 256), True), ((271, 243), False)])
def test_int16_images_whose_byte_planes_sums_do_not_fit(shape: tuple[int, int], fits: bool) -> None:
    """65,792 weights of -128 times 255 are 2^31 - 32,768."""
    build = LayerBuilder(1)
    operands = [
        build.input("x", (1, *shape, 1), DType.INT16),
        build.constant(np.full((1, *shape, 1), -128), DType.INT8),
        build.constant(np.zeros(1), DType.INT48),
        build.zero_point(DType.INT16),
        build.zero_point(DType.INT8),
    ]
    attributes = dict(pad=[0] * 4, stride=[1, 1], dilation=[1, 1], acc_type=DType.INT48, local_bound=False)
    build.output(build.add("CONV2D", operands, **attributes))
    graph = build.finish()
    if fits:
        assert next(plans_of(task_of(graph, Choices(BASE)))).main.steps
    else:
        with pytest.raises(UnsupportedError, match="the array multiplies bytes, and the sums of 'x' int16"):
            next(plans_of(task_of(graph, Choices(BASE))))
