"""Layers that run stripe by stripe, so that what is between them never leaves the activation memory."""

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from cascade_graphs import SMALL_MEMORY, inverted_bottleneck
from compressed_graphs import SparseLayers
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.search import Choices, plans_of, task_of
from tosaic.compiler.tile.cascade import Heights, StripeRows
from tosaic.compiler.tile.image_boxes import ImageBoxes
from tosaic.compiler.tile.work import CascadeWork
from tosaic.driver.session import Session
from tosaic.hw.config import Config
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode
from tosaic.sim.program import decode_program


def cascades(graph: Graph, config: Config) -> list[CascadeWork]:
    plan = next(plans_of(task_of(graph, Choices(config))))
    return [step.work for step in plan.main.steps if isinstance(step.work, CascadeWork)]


@pytest.mark.long
@pytest.mark.parametrize(
    "size, stride, kernel, residual",
    [(28, 1, 3, False), (28, 1, 3, True), (44, 2, 3, False), (30, 1, 5, False)],
)
def test_stripes_compute_what_golden_computes(size: int, stride: int, kernel: int, residual: bool) -> None:
    graph = inverted_bottleneck(size, stride, residual=residual, kernel=kernel)
    found = cascades(graph, SMALL_MEMORY)
    assert len(found) == 1
    assert len(found[0].stripes) > len(found[0].members) >= 2
    assert_equal_to_golden(graph, SMALL_MEMORY, check_hazards=True)


def test_rows_lie_apart_where_the_array_reads_two_at_once() -> None:
    """A word lies between the rows of a stripe that a depthwise layer reads."""
    graph, config = inverted_bottleneck(28, 2, wide=16), get_config("small,am_bytes=8K")
    (cascade,) = cascades(graph, config)
    apart = {
        place.pitch for stripe in cascade.stripes for place in stripe.work.placements.values() if place.pitch
    }
    assert apart == {28 * 16 + config.word_bytes}
    assert_equal_to_golden(graph, config, check_hazards=True)


def test_every_tensor_inside_a_cascade_can_be_compared() -> None:
    graph = inverted_bottleneck(28, 1, residual=True)
    session = Session(graph, "emulator", SMALL_MEMORY, keep_layers=True)
    session.run(feeds(graph, 3), check=True)
    program = session.program
    assert program is not None
    assert any(layer.parts > 1 for layer in program.layers)
    assert len(session.kept) == len(program.layers) == 4


def test_statistics_have_each_layer_of_a_cascade_once() -> None:
    graph = inverted_bottleneck(28, 1)
    session = Session(graph, "emulator", SMALL_MEMORY)
    session.run(feeds(graph, 3), check=True)
    assert session.program is not None
    layers, listed = session.stats["layers"], session.program.layers
    assert sorted(layer["macs"] for layer in layers) == sorted(layer.macs for layer in listed)
    assert session.stats["macs"] == 28 * 28 * (16 * 16 + 16 * 96 + 9 * 96 + 96 * 16)
    assert sum(layer["cycles"] for layer in layers) <= session.stats["cycles"]


def test_a_cascade_moves_and_takes_less() -> None:
    graph = inverted_bottleneck(28, 1)
    figures = []
    for optimize_cascades in (True, False):
        program = compile_graph(graph, SMALL_MEMORY, cascades=optimize_cascades)
        session = Session(program, "emulator")
        session.run(feeds(graph, 3))
        figures.append((session.stats["cycles"], session.stats["dram_write_bytes"]))
    assert figures[0][0] < 0.95 * figures[1][0]
    assert figures[0][1] < 0.5 * figures[1][1]


def boxes(height: int, kernel: int, stride: int, pad: int) -> ImageBoxes:
    rows = (height + 2 * pad - kernel) // stride + 1
    view = View("x", 0, 16, 16 * height)
    return ImageBoxes(Window(1, height, 1, 16, rows, 1, kernel, 1, stride, 1, 1, 1, pad, 0, view), 16, 16)


def test_rows_that_windows_share_are_kept_or_computed_again() -> None:
    cuts = (boxes(10, 1, 1, 0), boxes(10, 3, 1, 1))
    kept = Heights(cuts, 4, keeps=True)
    assert [stripe[0] for stripe in kept.stripes()] == [
        StripeRows((0, 5), (0, 5)),
        StripeRows((3, 9), (5, 9)),
        StripeRows((7, 10), (9, 10)),
    ]
    assert (kept.most_rows(), kept.most_kept(), kept.most_source_rows()) == ([6, 4], [2, 0], 5)
    again = Heights(cuts, 4, keeps=False)
    assert [stripe[0].computed for stripe in again.stripes()] == [(0, 5), (3, 9), (7, 10)]
    assert (again.most_rows(), again.most_kept(), again.most_source_rows()) == ([6, 4], [0, 0], 6)


def test_a_stride_beyond_the_kernel_leaves_rows_out() -> None:
    cuts = (boxes(9, 1, 1, 0), boxes(9, 1, 3, 0))
    assert [stripe[0].computed for stripe in Heights(cuts, 1, keeps=True).stripes()] == [
        (0, 1),
        (3, 4),
        (6, 7),
    ]


def window_chains() -> Iterator[list[ImageBoxes]]:
    """A layer of 1x1, and one or two with windows of each small kernel, stride and padding behind it."""
    windows = list(itertools.product((1, 2, 3), (1, 2, 3, 5), (0, 1)))
    for count, height in ((1, 7), (2, 11)):
        for chosen in itertools.product(windows, repeat=count):
            cuts = [boxes(height, 1, 1, 0)]
            for kernel, stride, pad in chosen:
                if cuts[-1].window.oh + 2 * pad >= kernel:
                    cuts.append(boxes(cuts[-1].window.oh, kernel, stride, pad))
            yield cuts


@pytest.mark.parametrize("keeps", [False, True])
def test_a_whole_result_has_every_row_and_windows_find_theirs(keeps: bool) -> None:
    """Rows that come from the stripe before were there, whatever the windows step over."""
    for cuts in window_chains():
        whole = range(len(cuts) - 1)
        for height in range(1, cuts[-1].window.oh + 1):
            stripes = Heights(cuts, height, keeps, whole).stripes()
            for number, rows in enumerate(zip(*stripes, strict=True)):
                computed = {row for each in rows for row in range(*each.computed)}
                assert computed == set(range(cuts[number].window.oh))
                for before, each in zip((StripeRows((0, 0), (0, 0)), *rows), rows, strict=False):
                    there = range(*before.needed) if keeps else range(0)
                    assert set(range(*each.needed)) <= {*there, *range(*each.computed)}
            for stripe in stripes:
                for made, reader, cut in zip(stripe, stripe[1:], cuts[1:], strict=False):
                    read = cut.window.input_rows(*reader.computed) if len(range(*reader.computed)) else (0, 0)
                    assert set(range(*read)) <= set(range(*made.needed))


@pytest.mark.parametrize("keep_layers", [False, True])
@pytest.mark.parametrize(
    "size, kernel, stride, pad", [(28, 1, 2, 0), (29, 1, 3, 0), (31, 2, 4, 0), (29, 3, 5, 1)]
)
def test_windows_that_step_over_rows(
    size: int, kernel: int, stride: int, pad: int, keep_layers: bool
) -> None:
    """Kept tensors are whole: also the rows that no window of the next layer reads."""
    build = LayerBuilder(7)
    x = build.input("x", (1, size, size, 16), DType.INT8)
    y = build.rescale(build.conv(x, 96, (1, 1), input_zp=3), DType.INT8, per_channel=True)
    z = build.conv(
        y, 1, (kernel, kernel), stride=(stride,) * 2, pad=pads(size, kernel, stride, pad), depthwise=True
    )
    z = build.rescale(z, DType.INT8)
    build.output(build.rescale(build.conv(z, 16, (1, 1)), DType.INT8))
    graph = build.finish()
    session = Session(graph, "emulator", SMALL_MEMORY, keep_layers=keep_layers)
    session.run(feeds(graph, 3), check=True)
    assert cascades(graph, SMALL_MEMORY)
    assert len(session.kept) == (3 if keep_layers else 0)


def pads(size: int, kernel: int, stride: int, pad: int) -> tuple[int, int, int, int]:
    """Returns the padding before and after each of two axes, so that windows end with the image, as TOSA wants it."""
    behind = -(size + pad - kernel) % stride
    return (pad, behind) * 2


def test_a_tensor_that_somebody_else_reads_stays_whole() -> None:
    build = LayerBuilder(7)
    x = build.input("x", (1, 28, 28, 16), DType.INT8)
    y = build.rescale(build.conv(x, 96, (1, 1)), DType.INT8)
    z = build.conv(y, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True)
    build.output(build.rescale(z, DType.INT8))
    build.output(y)
    graph = build.finish()
    assert cascades(graph, SMALL_MEMORY) == []
    assert_equal_to_golden(graph, SMALL_MEMORY)
    assert np.prod(graph.tensors[y].shape) > SMALL_MEMORY.am_bytes


@pytest.mark.parametrize(
    "channels, size, wm_bytes, stripes, decoded", [(24, 28, 4096, 1, 9), (32, 32, 8192, 16, 6)]
)
@pytest.mark.filterwarnings("ignore:each run decodes weights:UserWarning")
def test_stripes_decode_no_weights_again(
    channels: int, size: int, wm_bytes: int, stripes: int, decoded: int
) -> None:
    """With 4096 bytes of weight memory, 14 stripes would decode 87 blocks, the layers one by one 9."""
    config = dataclasses.replace(SMALL_MEMORY, wm_bytes=wm_bytes, cabac_engines=1)
    graph = inverted_bottleneck(size, 1, channels=channels, build=SparseLayers(7))
    program = compile_graph(graph, config, compress="nnr-stream")
    code = program.image[program.program_address :][: program.program_bytes]
    blocks = [each for each in decode_program(code) if each.opcode == Opcode.LOAD_DECODE]
    assert (max(layer.parts for layer in program.layers), len(blocks)) == (stripes, decoded)
    assert_equal_to_golden(graph, config, check_hazards=True, compress="nnr-stream")


def test_a_stripe_has_a_row_though_its_windows_see_padding_only() -> None:
    """A result whose rows nobody reads, and an image of which the first stripe reads nothing, still have one row."""
    view = View("x", 0, 16, 16)
    over_padding = Window(1, 1, 1, 16, 3, 1, 1, 1, 1, 1, 1, 1, 3, 0, view)
    cuts = [
        ImageBoxes(dataclasses.replace(over_padding, oh=1, top=0), 16, 16),
        ImageBoxes(over_padding, 16, 16),
    ]
    heights = Heights(cuts, 1, keeps=True)
    assert heights.most_rows() == [1, 1]
    assert heights.most_kept() == [0, 0]
    assert heights.most_source_rows() == 1
    assert all(stripe[0].needed == stripe[0].computed == (0, 0) for stripe in heights.stripes())
