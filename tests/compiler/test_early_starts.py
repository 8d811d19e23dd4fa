"""What the array waits for first comes first: weights before parameters; what it reads of a layer before the rest."""

import itertools

import pytest
from emulation import assert_equal_to_golden
from layer_graphs import LayerBuilder, feeds

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir import DType, Graph
from tosaic.driver.session import Session
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import INSTRUCTION_BYTES, Instruction, Opcode, Space, decode


def _network(size: int, channels: int) -> Graph:
    build = LayerBuilder(3)
    x = build.input("x", (1, size, size, 16), DType.INT8)
    wide = build.conv(x, channels, (3, 3), pad=(1, 1, 1, 1))
    build.output(build.rescale(wide, DType.INT8, per_channel=True))
    return build.graph


def _loads(graph: Graph) -> list[Instruction]:
    program = compile_graph(graph, get_config("base"))
    code = program.image[program.program_address :][: program.program_bytes]
    found = [decode(code[at : at + INSTRUCTION_BYTES]) for at in range(0, len(code), INSTRUCTION_BYTES)]
    return [each for each in found if each.opcode is Opcode.LOAD_GO]


def test_the_first_weights_come_before_the_parameters() -> None:
    loads = _loads(_network(8, 64))
    params = [load.row_bytes for load in loads].index(4 * 16 * 7)
    assert loads[0].space == Space.AM and [load.space for load in loads[1:params]] == [Space.WM]


def _chain(size: tuple[int, int], channels: int, kernels: list[tuple[int, bool]]) -> Graph:
    """Convolutions, of (kernel, depthwise), one behind the other."""
    build = LayerBuilder(5)
    x = build.input("x", (1, *size, channels), DType.INT8)
    for kernel, depthwise in kernels:
        around = (kernel // 2,) * 4
        y = build.conv(x, 1 if depthwise else channels, (kernel, kernel), depthwise=depthwise, pad=around)
        x = build.rescale(y, DType.INT8, per_channel=True)
    build.output(x)
    return build.graph


_SEPARABLE = [(1, False), (3, True), (1, False), (3, True), (1, False)]
_DENSE = [(3, False), (3, False), (1, False)]


@pytest.mark.long
@pytest.mark.parametrize("kernels", [_SEPARABLE, _DENSE])
@pytest.mark.parametrize("size", [(25, 5), (12, 12), (24, 24), (6, 6), (3, 3), (40, 1)])
@pytest.mark.parametrize("channels", [16, 40, 64])
def test_no_token_is_missing(size: tuple[int, int], channels: int, kernels: list[tuple[int, bool]]) -> None:
    graph = _chain(size, channels, kernels)
    assert_equal_to_golden(graph, "base", check_hazards=True)
    # And no unit waits for good.
    Session(graph, "emulator", "base").run(feeds(graph, 1))


@pytest.mark.parametrize(("kernels", "most"), [(_SEPARABLE, 16), (_DENSE, 8)])
def test_the_array_hardly_waits_between_layers(kernels: list[tuple[int, bool]], most: int) -> None:
    """A layer begins with the channels, or rows, that are there: it needs not wait until VECTOR has written all."""
    graph = _chain((24, 24), 64, kernels)
    session = Session(graph, "emulator", "base")
    session.run(feeds(graph, 1))
    slots = [each for each in session.timeline() if each.unit == "ARRAY"]
    gaps = [after.start - before.end for before, after in itertools.pairwise(slots)]
    assert max(gaps) <= most


def _tiles_of_first_boxes(shape: tuple[int, ...], channels: int, stride: int) -> list[int]:
    build = LayerBuilder(3)
    x = build.input("x", shape, DType.INT8)
    y = build.conv(x, channels, (3, 3), stride=(stride, stride), pad=(0, 1, 0, 1))
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    assert_equal_to_golden(build.graph, "base", check_hazards=True)
    code = compile_graph(build.graph, get_config("base"))
    raw = code.image[code.program_address :][: code.program_bytes]
    found = [decode(raw[at : at + INSTRUCTION_BYTES]) for at in range(0, len(raw), INSTRUCTION_BYTES)]
    return [each.pixels for each in found if each.opcode is Opcode.ARRAY_GO]


def test_the_first_box_of_an_image_that_arrives_is_small() -> None:
    pixels = _tiles_of_first_boxes((1, 96, 96, 3), 8, 2)
    assert pixels[0] < pixels[1] <= 2 * pixels[0]


def test_it_is_not_where_the_weights_come_first() -> None:
    """256 KiB and more of weights take longer than the image: a small box would only take its time again."""
    assert len(set(_tiles_of_first_boxes((1, 8, 8, 256), 256, 1))) == 1


FULL_TILES = {
    "five pixels in a row": ((1, 8, 5, 592), dict(channels=96, kernel=1), 10_800),
    "every other pixel": ((1, 15, 9, 584), dict(channels=90, kernel=1, stride=2), 13_450),
    "depthwise": ((1, 16, 24, 207), dict(channels=1, kernel=5, dilation=2, depthwise=True), 18_500),
}


@pytest.mark.parametrize("name", FULL_TILES)
def test_boxes_of_an_image_that_arrives_leave_few_rows_of_the_array_empty(name: str) -> None:
    """Boxes of a few KiB begin early, but two rows of five pixels leave six of sixteen rows of the array empty."""
    shape, layer, most_cycles = FULL_TILES[name]
    build, (stride, dilation) = LayerBuilder(3), (layer.get("stride", 1), layer.get("dilation", 1))
    x = build.input("x", shape, DType.INT8)
    y = build.conv(
        x,
        layer["channels"],
        (layer["kernel"],) * 2,
        stride=(stride, stride),
        dilation=(dilation, dilation),
        depthwise=layer.get("depthwise", False),
    )
    build.output(build.rescale(y, DType.INT8, per_channel=True))
    session = Session(build.graph, "emulator", "base")
    session.run(feeds(build.graph, 1), check=True)
    assert session.stats["cycles"] <= most_cycles


def test_weights_are_followed_where_the_bus_has_no_time_before_their_layer() -> None:
    """The bus is free while an image is worked on, but not before the first layer: that one begins with the first of
    its weights, the last one with all of them there, and faster."""
    build = LayerBuilder(7)
    vector = build.input("vector", (1, 1, 1, 128), DType.INT8)
    image = build.input("image", (1, 24, 24, 16), DType.INT8)
    for x, channels, kernel in ((vector, 112, 1), (image, 32, 5), (vector, 96, 1)):
        build.output(build.rescale(build.conv(x, channels, (kernel, kernel)), DType.INT8))
    weights = [load for load in _loads(build.graph) if load.space == Space.WM]
    followed = {streamed: sum(w.row_bytes for w in weights if w.streamed == streamed) for streamed in (1, 0)}
    assert followed == {1: 128 * 112, 0: 25 * 16 * 32 + 128 * 96}
    assert_equal_to_golden(build.graph, "base", check_hazards=True)
