"""What VECTOR takes of the array's boxes: parts that are there early, many tiles at once."""

import pytest
from indexed_graphs import instructions
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource
from tosaic.compiler.emit.convolution import BoxOnArray
from tosaic.compiler.fuse.expression import Load
from tosaic.compiler.ir import DType, Graph
from tosaic.compiler.place.address import Region, Span
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.tile.image_boxes import Box
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Element, Instruction, Opcode, Space

SMALL = get_config("small")
WINDOW = Window(1, 4, 4, 8, 4, 4, 1, 1, 1, 1, 1, 1, 0, 0, View("x", 0, 32, 128))
NO_SOURCE = BoxSource(WINDOW, 0, Span(Region.ACTIVATION, 0, 0), 0)
LOAD = Load("a", Element.INT16)


def place(address: int, columns: int, pixel: int, rows: int, *, gap: int = 0) -> BoxPlace:
    """Returns the place of rows that are `gap` bytes apart."""
    row = columns * pixel + gap
    return BoxPlace(address, row, pixel, rows * row - gap)


def placed(
    rows: int = 4, columns: int = 6, *, gap: int = 0, operand_gap: int = 0, line: bool = False
) -> BoxOnArray:
    """A box of pixels of 10 bytes, and an operand of 20, or a line of 20 bytes for all of them."""
    box = Box(0, 2, 2 + rows, 1, 1 + columns, 0, 10)
    operand = BoxPlace(5000, 0, 0, 20) if line else place(5000, columns, 20, rows, gap=operand_gap)
    return BoxOnArray(box, NO_SOURCE, [(LOAD, operand)], place(1000, columns, 10, rows, gap=gap))


# --- parts of a box


def test_whether_pixels_are_equally_far_apart() -> None:
    assert placed().linear
    assert not placed(gap=2).linear and not placed(operand_gap=2).linear
    assert placed(line=True).linear


def test_pixels_of_a_box_where_all_are_equally_far_apart() -> None:
    first, rest = placed().part(0, 8), placed().part(8, 24)
    assert (first.box.oy0, first.box.rows, first.box.columns) == (2, 1, 8)
    assert (rest.box.oy0, rest.box.rows, rest.box.columns) == (2, 1, 16)
    assert (first.pixels, rest.pixels) == (8, 16)
    assert [each.target.span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 1000, 1080),
        Span(Region.ACTIVATION, 1080, 1240),
    ]
    assert [each.loads[0][1].span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 5000, 5160),
        Span(Region.ACTIVATION, 5160, 5480),
    ]
    assert first.loads[0][0] is LOAD


def test_rows_of_a_box_where_rows_are_apart() -> None:
    """The last row ends with its pixels."""
    first, rest = placed(gap=2).part(0, 12), placed(gap=2).part(12, 24)
    for part, row in ((first, 2), (rest, 2)):
        assert (part.box.oy0, part.box.rows, part.box.columns) == (row, 2, 6)
    assert [each.target.span for each in (first, rest)] == [
        Span(Region.ACTIVATION, 1000, 1124),
        Span(Region.ACTIVATION, 1124, 1246),
    ]
    assert rest.loads[0][1].span == Span(Region.ACTIVATION, 5240, 5480)


def test_a_line_is_there_for_all_parts() -> None:
    whole = placed(line=True)
    rest = whole.part(6, 24)
    assert rest.loads == whole.loads
    assert rest.target.span == Span(Region.ACTIVATION, 1060, 1240)


# --- what is written before the array is through


def gos_of(graph: Graph, opcode: Opcode) -> list[Instruction]:
    return [each for each in instructions(compile_graph(graph, SMALL)) if each.opcode is opcode]


def in_the_middle(depth: int, *, depthwise: bool = False) -> Graph:
    """A layer over 16 by 16 pixels of `depth` channels in activation memory, which makes 8 channels for a convolution
    behind it. Each tile of 8 pixels takes `depth` slots; of a depthwise one each pixel takes one."""
    build = LayerBuilder(1)
    before = build.conv(build.input("x", (1, 16, 16, 8), DType.INT8), depth, (3, 3), pad=(1, 1, 1, 1))
    x = build.rescale(before, DType.INT8)
    if depthwise:
        made = build.conv(x, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True)
    else:
        made = build.conv(x, 8, (1, 1))
    behind = build.conv(build.rescale(made, DType.INT8), 8, (3, 3), pad=(1, 1, 1, 1))
    build.output(build.rescale(behind, DType.INT8))
    return build.finish()


def parts_of_the_middle(graph: Graph) -> list[int]:
    """Vectors of the GOs of its second layer."""
    layers, found = 0, list[int]()
    for each in instructions(compile_graph(graph, SMALL)):
        layers += each.opcode is Opcode.VECTOR_MARK
        if each.opcode is Opcode.VECTOR_GO and layers == 1:
            found.append(each.vectors)
    return found


@pytest.mark.parametrize(
    "depth, rest",
    [
        # The last 36 + 8 slots are of one tile of 8 pixels, of two, of three, of six.
        (48, 8),
        (40, 16),
        (24, 16),
        (16, 24),
        (8, 48),
    ],
)
def test_tiles_of_pixels_that_are_written_before_the_end(depth: int, rest: int) -> None:
    """36 slots and as many as the array has rows are left when the first of what is written then is needed."""
    assert SMALL.rows == 8
    assert parts_of_the_middle(in_the_middle(depth)) == [256 - rest, rest]


def test_pixels_of_a_depthwise_box_that_are_written_before_the_end() -> None:
    """Whole tiles, of which the last one that is left begins less than 36 pixels before the end: they take a slot each,
    and those beside the image some, too."""
    first, rest = parts_of_the_middle(in_the_middle(8, depthwise=True))
    assert (first + rest, first % SMALL.rows) == (256, 0)
    assert 36 - 2 * SMALL.rows <= rest < 36


# --- many tiles by one command


def connected(*channels: int) -> Graph:
    """Layers over one pixel, one behind the other."""
    build = LayerBuilder(1)
    x = build.input("x", (1, 1, 1, channels[0]), DType.INT8)
    for count in channels[1:]:
        x = build.rescale(build.conv(x, count, (1, 1)), DType.INT8)
    build.output(x)
    return build.finish()


DEEP = SMALL.wm_bytes // 8 // 8
"""Channels of an input whose weights for 8 results are an eighth of the weight memory."""


@pytest.mark.parametrize(
    "channels, pieces",
    [
        # Tiles of 8 channels, four at a time; those with fewer channels by themselves.
        (64, [(4, 8), (4, 8)]),
        (60, [(4, 8), (3, 8), (1, 4)]),
        (36, [(4, 8), (1, 4)]),
        (32, [(4, 8)]),
    ],
)
def test_tiles_that_one_command_does(channels: int, pieces: list[tuple[int, int]]) -> None:
    """One command does as many as half of the weight memory holds."""
    graph = connected(DEEP, channels)
    found = [(each.vectors, each.lanes) for each in gos_of(graph, Opcode.VECTOR_GO)]
    assert found == pieces
    tiles = -(-channels // 8)
    counts = [min(4, tiles - start) for start in range(0, tiles, 4)]
    assert [each.more_blocks + 1 for each in gos_of(graph, Opcode.ARRAY_GO)] == counts
    weights = [each for each in gos_of(graph, Opcode.LOAD_GO) if each.space == Space.WM]
    assert all(each.streamed for each in weights)
    assert [each.rows * each.row_bytes for each in weights] == [8 * DEEP * count for count in counts]


@pytest.mark.parametrize("more", [0, 8])
def test_a_tile_of_half_of_the_weight_memory_comes_alone(more: int) -> None:
    """Or one that is larger."""
    gos = gos_of(connected(4 * DEEP + more, 16), Opcode.ARRAY_GO)
    assert [each.more_blocks for each in gos] == [0, 0]
