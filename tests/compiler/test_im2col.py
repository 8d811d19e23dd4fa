"""Convolutions whose image comes as one strip for each output column: im2col along x."""

import numpy as np
import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, decode

ALIKE = dict(shape=(1, 20, 12, 1), channels=16, kernel=(10, 4))


def convolution(shape, channels, kernel, *, dtype=DType.INT8, **attributes) -> Graph:
    """One convolution of the graph's input."""
    build = LayerBuilder(5)
    x = build.input("x", shape, DType.INT8)
    y = build.conv(x, channels, kernel, **attributes)
    build.output(build.rescale(y, dtype, per_channel=True) if dtype is not DType.INT32 else y)
    return build.finish()


def kernels(graph: Graph, config: str) -> list[tuple[int, int]]:
    """(kernel rows, words per run) of the program's ARRAY_KERNELs."""
    program = compile_graph(graph, get_config(config))
    raw = program.image[program.program_address :][: program.program_bytes]
    found = [decode(raw[start : start + 16]) for start in range(0, len(raw), 16)]
    return [(i.ky_count, i.chunks) for i in found if i.opcode is Opcode.ARRAY_KERNEL]


USED = {
    "padded on all sides": (ALIKE | dict(stride=(2, 2), pad=(4, 4, 1, 1), input_zp=-7), (1, 3)),
    "columns that lie outside altogether": (ALIKE | dict(pad=(0, 0, 5, 6), input_zp=9), (1, 3)),
    "a kernel taller than the image": (
        dict(shape=(1, 6, 30, 1), channels=16, kernel=(10, 4), pad=(5, 5, 2, 1), input_zp=3),
        (1, 3),
    ),
    "two images": (ALIKE | dict(shape=(2, 20, 12, 1), pad=(3, 3, 1, 1), input_zp=1), (1, 3)),
    "several tiles of channels": (ALIKE | dict(channels=40, weight_zp=2), (1, 3)),
    "wide elements": (ALIKE | dict(dtype=DType.INT16), (1, 3)),
    "accumulators": (ALIKE | dict(dtype=DType.INT32), (1, 3)),
    "one output column": (dict(shape=(1, 90, 4, 1), channels=16, kernel=(10, 4)), (1, 3)),
    "three channels": (dict(shape=(1, 48, 40, 3), channels=32, kernel=(3, 3), pad=(1, 1, 1, 1)), (1, 2)),
}


@pytest.mark.parametrize("name", USED)
def test_words_are_filled(name):
    arguments, kernel = USED[name]
    graph = convolution(**arguments)
    assert set(kernels(graph, "base")) == {kernel}
    assert_equal_to_golden(graph, "base", check_hazards=True)


NOT_USED = {
    "words that are full anyway": dict(shape=(1, 12, 12, 16), channels=16, kernel=(3, 3)),
    "one row": dict(shape=(1, 1, 60, 1), channels=16, kernel=(1, 4)),
    "dilated": ALIKE | dict(dilation=(2, 1)),
    "more rows to fetch than words are saved": dict(
        shape=(1, 96, 96, 3), channels=8, kernel=(3, 3), stride=(2, 2), pad=(0, 1, 0, 1)
    ),
}


@pytest.mark.parametrize("name", NOT_USED)
def test_images_that_stay_as_they_are(name):
    graph = convolution(**NOT_USED[name])
    kernel = NOT_USED[name]["kernel"]
    assert {rows for rows, _ in kernels(graph, "base")} == {kernel[0]}
    assert_equal_to_golden(graph, "base")


def test_an_image_that_is_an_operand_too():
    """A layer that adds its own image keeps it."""
    build = LayerBuilder(5)
    x = build.input("x", (1, 20, 12, 1), DType.INT8)
    y = build.rescale(build.conv(x, 1, (10, 4), pad=(4, 5, 1, 2)), DType.INT8)
    build.output(build.residual(y, x))
    assert_equal_to_golden(build.finish(), "base", check_hazards=True)


def test_an_image_that_another_layer_reads():
    build = LayerBuilder(5)
    x = build.input("x", (1, 20, 12, 1), DType.INT8)
    for _ in range(2):
        build.output(build.rescale(build.conv(x, 16, (10, 4), pad=(4, 5, 1, 2)), DType.INT8))
    assert_equal_to_golden(build.finish(), "base", check_hazards=True)


@pytest.mark.parametrize("config", ["nano", "small", "large"])
def test_on_other_machines(config):
    graph = convolution((1, 31, 14, 1), 20, (6, 3), stride=(2, 1), pad=(2, 3, 1, 1), input_zp=5)
    assert_equal_to_golden(graph, config, check_hazards=True)


@pytest.mark.long
def test_a_large_image_goes_through_buffers():
    """Neither the image's strips nor the result fit: boxes take turns."""
    graph = convolution((1, 140, 150, 3), 32, (3, 3), stride=(1, 1), pad=(1, 1, 1, 1), input_zp=-3)
    assert set(kernels(graph, "base")) == {(1, 2)}
    assert_equal_to_golden(graph, "base", check_hazards=True)


@pytest.mark.xdist_group("base")
def test_rtl_agrees_within_three_percent():
    graph = convolution((1, 49, 10, 1), 64, (10, 4), stride=(2, 2), pad=(4, 5, 1, 1), input_zp=83)
    values, cycles = feeds(graph, 2), []
    for target in ("emulator", "sim"):
        session = Session(graph, target, "base")
        session.run(values, check=True)
        assert session.result is not None
        cycles.append(session.result.cycles)
    np.testing.assert_allclose(cycles[0], cycles[1], rtol=0.03)
