"""Limits of choices, each met and just missed, where no plan of a whole layer comes to them."""

import dataclasses

import pytest
from layer_graphs import LayerBuilder

from tosaic.compiler.build import compile_graph
from tosaic.compiler.emit.commands import Work
from tosaic.compiler.fuse.fuser import Fuser
from tosaic.compiler.ir import DType
from tosaic.compiler.legalize.rewriting import Rewriting
from tosaic.compiler.legalize.split_pool import split_pool
from tosaic.compiler.legalize.transposed_convolution import transpose_convolution
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import activation_span
from tosaic.compiler.place.external import LARGEST_BYTES, ExternalMemory
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.placement import BufferKey, Role
from tosaic.compiler.program_header import HeaderError, integer
from tosaic.compiler.schedule.image import lay_out
from tosaic.compiler.schedule.tracker import Tracker
from tosaic.compiler.tile.box_cost import BoxCost, BoxWork
from tosaic.compiler.tile.cascade import heights_of
from tosaic.compiler.tile.image_boxes import Extent, ImageBoxes, Tiling, row_starts
from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Unit
from tosaic.sim.emulator.timing import hidden_cycles
from tosaic.sim.result import Slice

BASE = get_config("base")


def window(**sizes: int) -> Window:
    ih, iw, ic = sizes.get("ih", 14), sizes.get("iw", 14), sizes.get("ic", 64)
    given = dict(n=1, oh=ih, ow=iw, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0) | sizes
    return Window(**(given | dict(ih=ih, iw=iw, ic=ic)), view=View("x", 0, iw * ic, ih * iw * ic))


@pytest.mark.parametrize("vectors, waits_for", [(64, 0), (65, 1)])
def test_the_array_has_room_for_64_vectors_behind_it(vectors: int, waits_for: int) -> None:
    """Once more of them have left it, VECTOR is done with those before."""
    tracker, here = Tracker(), activation_span(0, 8)
    for writes, count in ((here, 1), (activation_span(64, 72), 1), (activation_span(128, 136), vectors)):
        tracker.add(Work(Unit.ARRAY, []))
        tracker.add(Work(Unit.VECTOR, [], writes=[writes], array_vectors=count))
    assert tracker.add(Work(Unit.ARRAY, [], reads=[here])).waits == {Unit.VECTOR: waits_for}


def test_a_wrong_header_says_what_is_wrong_where() -> None:
    with pytest.raises(HeaderError) as caught:
        integer(0, 9)(10, "layers[3].macs")
    said = "the program file's header is wrong: layers[3].macs must be an integer in 0..9, not 10"
    assert str(caught.value) == f"{said}; compile the model again"


@pytest.mark.parametrize("outputs, per_channel", [(1, False), (2, True)])
def test_averages_of_windows_of_two_sizes_have_two_scales(outputs: int, per_channel: bool) -> None:
    build = LayerBuilder(1)
    zeros = [build.zero_point(DType.INT8, 3) for _ in range(2)]
    attributes = dict(kernel=[1, 600], stride=[1, 300], acc_type=DType.INT32)
    x = build.input("x", (1, 1, 300 + 300 * outputs - outputs + 1, 4), DType.INT8)
    build.output(build.add("AVG_POOL2D", [x, *zeros], pad=[0, 0, 0, outputs - 1], **attributes))
    new = Rewriting(build.graph, build.graph.operators[0])
    assert split_pool(new, get_config("nano,am_bytes=4K"))
    widened, *_, divided = [operator for operator in new.operators if operator.op == "RESCALE"]
    assert (widened.attributes["per_channel"], divided.attributes["per_channel"]) == (False, per_channel)
    for name, count in zip(divided.inputs[1:], (outputs, outputs, 1, 1), strict=True):
        assert build.graph.tensors[name].shape == (count,)
    assert all(build.graph.tensors[name].shape == (1,) for name in widened.inputs[1:])


@pytest.mark.parametrize(
    "taps, stride, image, channels",
    [(4, 2, (3, 3), 172), (6, 2, (3, 5), 76), (8, 4, (2, 3), 36), (9, 3, (4, 2), 32)],
)
def test_products_saved_by_a_convolution_for_each_remainder(taps, stride, image, channels) -> None:
    """The fewest input channels for which it saves enough of them to make up for putting its result in order."""
    found = []
    for count in range(8, 1200, 4):
        build = LayerBuilder(1)
        x = build.input("x", (1, *image, count), DType.INT8)
        weight = build.input("w", (16, taps, taps, count), DType.INT8)
        bias = build.constant([1], DType.INT32)
        zeros = [build.zero_point(DType.INT8) for _ in range(2)]
        attributes = dict(out_pad=[0] * 4, stride=[stride] * 2, acc_type=DType.INT32, local_bound=False)
        build.output(build.add("TRANSPOSE_CONV2D", [x, weight, bias, *zeros], **attributes))
        new = Rewriting(build.graph, build.graph.operators[0])
        assert transpose_convolution(new)
        found.append(any(operator.op == "TRANSPOSE" for operator in new.operators))
    assert 8 + 4 * found.index(True) == channels


def test_some_channels_of_a_pixel_are_a_burst_each() -> None:
    """Two boxes of 16 channels, one of 7 by 14 pixels each way: 98 bursts of 100 cycles in and as many out."""
    cost = BoxCost(
        BASE,
        MemorySpeed(None, 3192),
        lambda rows, columns, channels: BoxWork(1, 10, 0, stays=True),
        beats=1,
    )
    sizes = {BufferKey(Role.OPERAND, "x"): 1568, BufferKey(Role.RESULT, "y"): 1568}
    cut = ImageBoxes(window(ih=7), 32, 16)
    assert cost.cycles(Tiling(cut, Extent(7, 14, 16)), sizes, doubled=False) == 2 * (
        98 * 100 * 2 + max(98 + 2 * 28 + 40, 32) + 3192 + 60
    )


def test_boxes_grow_until_they_are_as_high_as_any() -> None:
    assert row_starts(0, 20, 8, 1) == [0, 1, 3, 7, 15]
    assert row_starts(3, 20, 8, 0) == [3, 11, 19]
    assert row_starts(5, 5, 8, 1) == []


@pytest.mark.parametrize(
    "height, most, heights", [(7, 32, [7, 4, 3, 2, 1]), (7, 3, [7, 4, 3]), (8, 1, [8]), (1, 32, [1])]
)
def test_stripes_of_even_height(height: int, most: int, heights: list[int]) -> None:
    cuts = [ImageBoxes(window(ih=height), 64, 16)]
    found = [(each.height, each.keeps) for each in heights_of(cuts, most)]
    assert found == [(rows, keeps) for rows in heights for keeps in (True, False)]


def test_external_memory_up_to_what_instructions_address() -> None:
    """Decoded weights and data, each rounded up to pages, behind a program of a page."""
    page = 4096
    full = ExternalMemory(unpacked_bytes=page, data_bytes=LARGEST_BYTES - 2 * page)
    assert lay_out([], [], full).memory_bytes == LARGEST_BYTES - page
    for more in (dict(unpacked_bytes=2 * page), dict(data_bytes=LARGEST_BYTES - page)):
        assert lay_out([], [], dataclasses.replace(full, **more)).memory_bytes == LARGEST_BYTES
    with pytest.raises(UnsupportedError, match="instructions address 4 GiB"):
        lay_out([], [], dataclasses.replace(full, unpacked_bytes=2 * page + 1))


def test_memory_is_reserved_up_to_what_instructions_address() -> None:
    sizes = dict(constants_bytes=1 << 20, unpacked_bytes=1 << 21, data_bytes=LARGEST_BYTES - (1 << 22))
    room = (1 << 22) - (1 << 20) - (1 << 21)
    assert ExternalMemory(**sizes).reserve(room).offset == sizes["data_bytes"]
    with pytest.raises(UnsupportedError, match=f"a copy of {room + 1} bytes does not fit the 4 GiB"):
        ExternalMemory(**sizes).reserve(room + 1)


@pytest.mark.parametrize(
    "sources, shown",
    [
        ([""], ""),
        (["a"], "a"),
        (["a", "a"], "a"),
        (["a", "", "b"], "a … b"),
        (["a", "b", "c"], "a … c"),
    ],
)
def test_a_layer_is_shown_by_its_first_and_last_operator(sources: list[str], shown: str) -> None:
    build = LayerBuilder(1)
    y = build.input("x", (1, 4), DType.INT32)
    for source in sources:
        y = build.add("BITWISE_NOT", [y])
        build.graph.operators[-1].name = f"{source}:{y}"
    build.output(y)
    (layer,) = Fuser(build.finish(), BASE, fuse=True).layers(set())
    assert layer.sources == shown


def test_a_layer_is_called_like_a_tensor_of_the_model() -> None:
    """Though it makes it in another shape: the RESHAPE comes behind the operators that follow it."""
    build = LayerBuilder(1)
    y = build.conv(build.input("x", (1, 6, 8, 4), DType.INT8), 4, (1, 1))
    y = build.add("RESHAPE", [y, build.shape((4, 48))])
    for number in range(20):
        y = build.add(("BITWISE_NOT", "ABS")[number % 2], [y])
    build.output(y)
    graph = build.finish()
    assert [layer.output for layer in compile_graph(graph, BASE).layers] == ["abs_1", y]


def test_cycles_in_which_decoding_is_hidden() -> None:
    """The array or elementwise work hides them; cycles in which both work do not count twice."""

    def hidden(*slices: tuple[str, str, int, int]) -> int:
        return hidden_cycles([Slice(unit, name, start, end) for unit, name, start, end in slices])

    decode = ("LOAD", "decode", 10, 30)
    assert hidden(decode, ("ARRAY", "x", 0, 10), ("ARRAY", "x", 30, 40)) == 0
    assert hidden(decode, ("ARRAY", "x", 5, 15), ("VECTOR", "elementwise", 12, 20)) == 10
    assert (
        hidden(decode, ("LOAD", "decode", 32, 50), ("ARRAY", "x", 25, 40), ("VECTOR", "pool", 40, 90)) == 13
    )
