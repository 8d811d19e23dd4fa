"""Depthwise convolutions of even stride read two image rows at once; images that arrive are worked on row by row."""

import numpy as np
import pytest
from layer_graphs import LayerBuilder
from rtl_configs import on_rtl

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode


def network(
    seed: int,
    shape: tuple[int, int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    *,
    producer: bool,
    second_reader: bool = False,
) -> Graph:
    """A depthwise convolution to int8, behind a 1x1 convolution if `producer`; `second_reader` pools its input."""
    build = LayerBuilder(seed)
    x = build.input("x", shape, DType.INT8)
    if producer:
        x = build.rescale(build.conv(x, shape[3], (1, 1), input_zp=3), DType.INT8, per_channel=True)
    pads = []
    for size, taps, step in zip(shape[1:3], kernel, stride, strict=True):
        before = int(build.random.integers(0, taps))
        after = int(build.random.integers(0, taps))
        pads += [before, after + (taps - size - before - after) % step]
    y = build.conv(x, 1, kernel, stride=stride, pad=tuple(pads), depthwise=True, input_zp=-7)
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    if second_reader:
        zero = build.zero_point(DType.INT8)
        attributes = dict(kernel=[2, 2], stride=[1, 1], pad=[0, 0, 0, 0], acc_type=DType.INT32)
        build.output(build.add("AVG_POOL2D", [x, zero, zero], **attributes))
    return build.finish()


def check(graph: Graph, target: str = "emulator", config: str = "base") -> Session:
    session = Session(graph, target, config)
    shape = session.inputs[0].shape
    session.run({"x": np.random.default_rng(5).integers(-128, 128, shape).astype(np.int8)}, check=True)
    return session


def paired(graph: Graph, config: str) -> list[int]:
    program = compile_graph(graph, get_config(config))
    code = program.image[program.program_address :][: program.program_bytes]
    words = (code[i : i + INSTRUCTION_BYTES] for i in range(0, len(code), INSTRUCTION_BYTES))
    return [i.paired for i in map(decode, words) if i.opcode == Opcode.ARRAY_DEPTHWISE]


@pytest.mark.parametrize("producer", [False, True])
@pytest.mark.parametrize(
    "shape, kernel, stride",
    [
        ((1, 12, 12, 32), (3, 3), (2, 2)),
        ((2, 9, 14, 16), (3, 2), (2, 1)),
        ((1, 21, 13, 48), (5, 3), (2, 2)),
        ((1, 25, 16, 16), (3, 5), (4, 2)),
        ((1, 7, 31, 16), (5, 1), (2, 3)),
    ],
)
def test_equal_golden(shape, kernel, stride, producer):
    graph = network(hash(shape) % 1000, shape, kernel, stride, producer=producer)
    check(graph)
    assert set(paired(graph, "base")) == {1}


def test_images_larger_than_the_memory_are_paired_in_stripes():
    graph = network(3, (1, 81, 80, 64), (3, 3), (2, 2), producer=False)
    check(graph)
    assert set(paired(graph, "base")) == {1}


def test_stripes_of_an_image_that_is_cut_from_a_larger_one():
    build = LayerBuilder(4)
    shape = (1, 82, 83, 64)
    x = build.input("x", shape, DType.INT8)
    start = build.constant(np.zeros(4, np.int64), DType.SHAPE)
    size = build.constant(np.array([1, 81, 81, 64]), DType.SHAPE)
    cut = build.add("SLICE", [x, start, size])
    y = build.conv(cut, 1, (3, 3), stride=(2, 2), pad=(0, 0, 0, 0), depthwise=True, input_zp=-7)
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    graph = build.finish()
    check(graph)
    assert set(paired(graph, "base")) == {1}


def test_pools_read_images_whose_rows_lie_apart():
    check(network(8, (1, 16, 16, 32), (3, 3), (2, 2), producer=True, second_reader=True))


@pytest.mark.parametrize(
    "shape, kernel, stride",
    [
        ((1, 12, 12, 32), (3, 3), (1, 1)),  # every row begins an output
        ((1, 12, 12, 24), (3, 3), (2, 2)),  # pixels are not whole words
        ((1, 12, 12, 32), (2, 2), (2, 2)),  # would end with a second row
    ],
)
def test_what_cannot_be_paired(shape, kernel, stride):
    graph = network(4, shape, kernel, stride, producer=True)
    check(graph)
    assert not any(paired(graph, "base"))


@pytest.mark.parametrize("config", [on_rtl("base"), on_rtl("small")])
def test_on_rtl(config):
    check(network(6, (1, 14, 12, 32), (3, 3), (2, 2), producer=True), "sim", config)


def test_cycles_of_strides_1_and_2():
    """48x48x64, 3x3: more than 100 and 50 multiply-accumulates per cycle of the array."""
    for stride, least in ((1, 100), (2, 50)):
        build = LayerBuilder(1)
        x = build.input("x", (1, 48, 48, 64), DType.INT8)
        pad = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)
        y = build.conv(x, 1, (3, 3), stride=(stride, stride), pad=pad, depthwise=True)
        build.output(build.rescale(y, DType.INT8))
        stats = check(build.finish()).stats
        assert stats["macs"] / stats["counters"]["array_active"] > least


@pytest.mark.parametrize("op", ["CONV2D", "MAX_POOL2D"])
def test_arriving_images(op):
    """The input is larger than one stripe's share: rows come while the first ones are worked on."""
    build = LayerBuilder(9)
    x = build.input("x", (2, 40, 30, 12), DType.INT8)
    if op == "CONV2D":
        y = build.rescale(build.conv(x, 20, (3, 3), stride=(1, 1), pad=(1, 1, 1, 1)), DType.INT8)
    else:
        attributes = dict(kernel=[3, 3], stride=[1, 1], pad=[1, 1, 1, 1], nan_mode="PROPAGATE")
        y = build.add("MAX_POOL2D", [x], **attributes)
    build.output(y)
    session = check(build.finish())
    loads = [piece for piece in session.timeline() if piece.unit == "LOAD" and piece.name == "tensor"]
    assert len(loads) > 4
    unit = "ARRAY" if op == "CONV2D" else "VECTOR"
    begun = min(piece.start for piece in session.timeline() if piece.unit == unit)
    assert begun < max(piece.end for piece in loads)
