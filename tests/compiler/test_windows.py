"""Windows in other forms see the same bytes: pixel by pixel, whatever is taken together, left out or laid in rows."""

import dataclasses
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layer_graphs import LayerBuilder

from tosaic.compiler.fuse.moves import Move
from tosaic.compiler.ir import DType
from tosaic.compiler.machine_numbers import IM2COL_BUFFERS
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.geometry import View, Window, window_of
from tosaic.compiler.place.stored_box import StoredBox
from tosaic.compiler.place.tap_passes import AxisTaps, TapPass
from tosaic.compiler.place.weights import Blob, WeightLayout
from tosaic.compiler.tile.im2col import Strips, im2col_window
from tosaic.compiler.tile.image_boxes import Box, ImageBoxes, column_starts
from tosaic.compiler.tile.mapping import on_array
from tosaic.compiler.tile.picked import picked_box
from tosaic.hw.config_text import get_config

BASE = get_config("base")
Places = list[int | None]
"""Places of bytes; None for those outside the image."""


@st.composite
def windows(draw: st.DrawFn, *, whole: bool = False) -> Window:
    """Draws windows over some images, of any stride, dilation and padding; with `whole`, rows and images follow each
    other."""

    def axis() -> tuple[int, int, int, int, int, int]:
        extent, taps = draw(st.integers(1, 6)), draw(st.integers(1, 3))
        stride, apart = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        return extent, taps, stride, apart, draw(st.integers(-1, 3)), draw(st.integers(1, 5))

    (ih, kh, sy, dy, top, oh), (iw, kw, sx, dx, left, ow) = axis(), axis()
    n, ic = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        kh = kw = sy = sx = 1
        top = left = 0
        oh, ow = (ih, iw) if draw(st.booleans()) else (min(oh, ih), min(ow, iw))
    gaps = (0, 0) if whole else (draw(st.integers(0, 2)), draw(st.integers(0, 3)))
    pitch = iw * ic + gaps[0]
    view = View("x", 0 if whole else draw(st.integers(0, 5)), pitch, ih * pitch + gaps[1])
    return Window(n, ih, iw, ic, oh, ow, kh, kw, sy, sx, dy, dx, top, left, view)


def seen(w: Window) -> Iterator[Places]:
    """The bytes of each output, by taps and channels."""
    for image, oy, ox in itertools.product(range(w.n), range(w.oh), range(w.ow)):
        places: Places = []
        for ky, kx in itertools.product(range(w.kh), range(w.kw)):
            y, x = oy * w.sy - w.top + ky * w.dy, ox * w.sx - w.left + kx * w.dx
            start = w.view.offset + image * w.view.image_bytes + y * w.view.pitch + x * w.ic
            inside = 0 <= y < w.ih and 0 <= x < w.iw
            places += [start + channel if inside else None for channel in range(w.ic)]
        yield places


@settings(max_examples=200, deadline=None)
@given(windows(whole=True))
def test_fewer_and_longer_rows_see_the_same(window: Window) -> None:
    simple = window.simplified()
    assert list(seen(simple)) == list(seen(window))
    if window.pixelwise:
        assert simple.n == 1 and simple.oh == window.n * window.oh
    if (window.iw, window.kw, window.left, window.ow, window.kh) == (1, 1, 0, 1, 2):
        assert (simple.oh, simple.ow) == (1, window.oh)


@settings(max_examples=60, deadline=None)
@given(windows(), st.sampled_from([2, 4, 8]))
def test_rows_of_a_power_of_two_see_the_same(window: Window, most: int) -> None:
    other = window.in_rows_of(most)
    if not (window.dense and window.pixelwise):
        assert other is window
        return
    assert list(seen(other)) == list(seen(window))
    assert other.ow <= most and other.dense and other.pixelwise
    assert other.oh * other.ow == window.oh * window.ow


def test_windows_with_gaps_stay_as_they_are() -> None:
    slid = Window(2, 4, 3, 2, 4, 3, 1, 1, 1, 1, 1, 1, 0, 0, View("x", 0, 6, 24))
    assert slid.dense and slid.simplified() is not slid
    for view in (View("x", 0, 7, 28), View("x", 0, 6, 25)):
        apart = dataclasses.replace(slid, view=view)
        assert not apart.dense and apart.simplified() is apart


@settings(max_examples=150, deadline=None)
@given(windows(), st.data())
def test_rows_and_columns_of_the_image_that_outputs_need(window: Window, data: st.DataObject) -> None:
    """The needed rows go from the first to the last one inside; none is needed where all are outside."""
    for size, count, taps, stride, apart, before, found in (
        (window.ih, window.oh, window.kh, window.sy, window.dy, window.top, window.input_rows),
        (window.iw, window.ow, window.kw, window.sx, window.dx, window.left, window.input_columns),
    ):
        first = data.draw(st.integers(0, count - 1))
        last = data.draw(st.integers(first + 1, count))
        ends = first * stride - before, (last - 1) * stride - before + (taps - 1) * apart + 1
        inside = [place for place in range(*ends) if 0 <= place < size]
        low, high = found(first, last)
        assert list(range(low, high)) == inside
        assert 0 <= low <= high <= size
    assert window.reach_rows == (window.kh - 1) * window.dy + 1
    assert window.reach_columns == (window.kw - 1) * window.dx + 1


@settings(max_examples=150, deadline=None)
@given(windows(), st.data())
def test_some_taps_over_every_few_pixels_see_what_they_did(window: Window, data: st.DataObject) -> None:
    """The taps of a pass in the depthwise mode are counted on an image of the pixels that the pass takes."""

    def taps(count: int, stride: int, apart: int) -> AxisTaps:
        step = stride if apart == 1 and data.draw(st.booleans()) else 1
        first = data.draw(st.integers(0, count - 1))
        return AxisTaps(first, data.draw(st.integers(1, -(-(count - first) // step))), step)

    y, x = taps(window.kh, window.sy, window.dy), taps(window.kw, window.sx, window.dx)
    # Only kernels without holes are taken by every few pixels.
    assume((window.dy == 1 or y.step == 1) and (window.dx == 1 or x.step == 1))
    part = TapPass(y, x)
    other, (row, column) = part.window(window), part.origin(window)
    for oy, ox, ky, kx in itertools.product(
        range(window.oh), range(window.ow), range(y.count), range(x.count)
    ):
        wanted = (
            oy * window.sy - window.top + (y.first + ky * y.step) * window.dy,
            ox * window.sx - window.left + (x.first + kx * x.step) * window.dx,
        )
        place = oy * other.sy - other.top + ky * other.dy, ox * other.sx - other.left + kx * other.dx
        # Where the pixel that is taken lies in the image: from the first tap's on, so many steps.
        first = row + other.top * y.step, column + other.left * x.step
        assert (first[0] + place[0] * y.step, first[1] + place[1] * x.step) == wanted
        inside = 0 <= wanted[0] < window.ih and 0 <= wanted[1] < window.iw
        if inside:
            assert place[0] < other.ih and place[1] < other.iw


@settings(max_examples=80, deadline=None)
@given(windows(), st.data())
def test_pixels_that_are_picked_are_those_that_the_box_reads(window: Window, data: st.DataObject) -> None:
    window = dataclasses.replace(window, kh=1, kw=1, top=0, left=0)
    assume((window.oh - 1) * window.sy < window.ih and (window.ow - 1) * window.sx < window.iw)
    oy0, ox0 = data.draw(st.integers(0, window.oh - 1)), data.draw(st.integers(0, window.ow - 1))
    oy1, ox1 = data.draw(st.integers(oy0 + 1, window.oh)), data.draw(st.integers(ox0 + 1, window.ow))
    box = Box(data.draw(st.integers(0, window.n - 1)), oy0, oy1, ox0, ox1, 0, 1)
    stored, other = picked_box(window, box)
    everything = list(seen(window))
    wanted = [
        place
        for oy, ox in itertools.product(range(oy0, oy1), range(ox0, ox1))
        for place in everything[(box.image * window.oh + oy) * window.ow + ox]
    ]
    assert bytes_of(stored) == wanted
    # In memory they lie one behind the other.
    assert [place for places in seen(other) for place in places] == list(range(len(wanted)))


def bytes_of(box: StoredBox) -> list[int]:
    starts = [box.start]
    for count, stride in box.dims:
        starts = [start + turn * stride for start in starts for turn in range(count)]
    return [start + byte for start in starts for byte in range(box.run)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3), st.integers(1, 5), st.booleans()
)
def test_boxes_with_longer_runs_are_the_same_bytes(
    dims: list[tuple[int, int]], run: int, dense: bool
) -> None:
    """They have as few dimensions as possible."""
    size, found = run, []
    for count, gap in reversed(dims):
        found.append((count, size + (0 if dense else gap)))
        size = found[-1][1] * count
    box = StoredBox(7, tuple(reversed(found)), run)
    merged = box.merged()
    assert bytes_of(merged) == bytes_of(box)
    assert (merged.bytes, merged.end) == (box.bytes, box.end) == (len(bytes_of(box)), max(bytes_of(box)) + 1)
    assert all(count > 1 for count, _ in merged.dims)
    for (_, stride), (count, inner) in itertools.pairwise(merged.dims):
        assert stride != count * inner
    if merged.dims:
        assert merged.dims[-1][1] != merged.run
    if dense:
        assert merged.dims == ()


# --- windows of operators


def made(op: str) -> Window:
    build = LayerBuilder(1)
    view = View("x", 0, 1, 1)
    if op == "MATMUL":
        a, b = build.input("a", (2, 5, 7), DType.INT8), build.input("b", (2, 7, 3), DType.INT8)
        build.add(op, [a, b, *(build.zero_point(DType.INT8) for _ in range(2))])
    elif op == "MAX_POOL2D":
        x = build.input("x", (2, 8, 9, 4), DType.INT8)
        build.add(op, [x], kernel=[3, 2], stride=[2, 1], pad=[0, 1, 1, 0], nan_mode="PROPAGATE")
    else:
        x = build.input("x", (2, 8, 9, 4), DType.INT8)
        build.conv(x, 2, (3, 2), stride=(2, 1), dilation=(1, 3), pad=(0, 1, 1, 0), depthwise=op != "CONV2D")
    return window_of(build.graph, build.graph.operators[-1], view)


def test_windows_of_operators() -> None:
    sizes = {
        "MATMUL": (2, 5, 1, 7, 5, 1, 1, 1, 1, 1, 1, 1, 0, 0),
        "MAX_POOL2D": (2, 8, 9, 4, 4, 9, 3, 2, 2, 1, 1, 1, 0, 1),
        "CONV2D": (2, 8, 9, 4, 4, 7, 3, 2, 2, 1, 1, 3, 0, 1),
        "DEPTHWISE_CONV2D": (2, 8, 9, 4, 4, 7, 3, 2, 2, 1, 1, 3, 0, 1),
    }
    for op, wanted in sizes.items():
        assert made(op) == Window(*wanted, View("x", 0, 1, 1))


# --- im2col


@settings(max_examples=100, deadline=None)
@given(windows(), st.data())
def test_columns_of_an_image_side_by_side_see_the_same(window: Window, data: st.DataObject) -> None:
    """Each output column is a row of the bytes under the kernel's columns, row of the image by row."""
    window = dataclasses.replace(window, n=1, dx=1, dy=1)
    first = data.draw(st.integers(0, window.ow - 1))
    columns = data.draw(st.integers(1, window.ow - first))
    other = im2col_window(window, window.ih, columns)
    run = window.kw * window.ic

    def origin(place: int | None) -> int | None:
        """Where a byte of the strips comes from."""
        if place is None:
            return None
        column, rest = divmod(place, window.ih * run)
        y, (kx, channel) = rest // run, divmod(rest % run, window.ic)
        x = (first + column) * window.sx - window.left + kx
        start = window.view.offset + y * window.view.pitch + x * window.ic + channel
        return start if 0 <= x < window.iw else None

    everything = list(seen(dataclasses.replace(window)))
    found = [[origin(place) for place in places] for places in seen(other)]
    assert found == [
        everything[oy * window.ow + first + column] for column in range(columns) for oy in range(window.oh)
    ]


def layout(chunks: int = 2, blobs: int = 1) -> WeightLayout:
    own = [Blob(16 * n, 16, 0) for n in range(blobs)]
    return WeightLayout(Move((512 * blobs,), ()), own, 512, 1, chunks)


def test_cycles_of_the_array_by_im2col() -> None:
    """All tiles, with those of fewer chunks; full tiles of pixels."""
    slid = Window(1, 9, 9, 3, 7, 7, 3, 3, 1, 1, 1, 1, 0, 0, View("x", 0, 27, 243))
    parts = layout(blobs=2)
    parts.blobs.append(Blob(32, 16, 0, chunks=1))
    for pixels, tiles in ((16, 1), (17, 2), (32, 2)):
        assert on_array(slid, parts, BASE, pixels) == tiles * 3 * (2 + 2 + 1) * 16


@pytest.mark.parametrize(
    "width, columns, first, starts", [(7, 3, 3, [0, 3, 6]), (7, 3, 1, [0, 1, 4]), (3, 3, 3, [0])]
)
def test_where_boxes_of_columns_begin(width: int, columns: int, first: int, starts: list[int]) -> None:
    assert column_starts(width, columns, first) == starts


@pytest.mark.parametrize("columns, first, weights", [(4, 4, 0), (4, 1, 0), (4, 2, 300), (1, 1, 40)])
@pytest.mark.parametrize("speed", [MemorySpeed(None, 50), MemorySpeed(2, 10)])
def test_cycles_of_boxes_of_columns(columns: int, first: int, weights: int, speed: MemorySpeed) -> None:
    """LOAD brings four boxes ahead of the array; weights come behind the first one."""
    slid = Window(1, 20, 13, 3, 18, 11, 3, 3, 1, 1, 1, 1, 0, 0, View("x", 0, 39, 780))
    bytes_per_cycle = float(speed.bytes_per_cycle(BASE))
    burst = max(float(speed.burst_cycles), (1 + 9 / 16) * 16 / bytes_per_cycle)
    loaded, computed = 0.0, list[float]()
    place = 0
    while place < 11:
        count = min(first if not place else columns, 11 - place)
        free = computed[-IM2COL_BUFFERS] if len(computed) >= IM2COL_BUFFERS else 0.0
        loaded = max(loaded + 10, free + 50 + speed.latency_cycles) + count * 20 * burst
        loaded += 0 if place else weights
        cycles = -(-count * 18 // 16) * 2 * 16
        computed.append(max(computed[-1] if computed else 0.0, loaded) + cycles)
        place += count
    strips = Strips(slid, layout(), BASE, speed)
    weight_bytes = int(weights * speed.bytes_per_cycle(BASE))
    found = strips.times(18, columns, first, IM2COL_BUFFERS, weight_bytes)
    assert found == (-(-computed[-1] // 1), -(-loaded // 1))


def test_widths_of_strips() -> None:
    """Up to 32 boxes of up to 16 columns, of which the first may be smaller; cycles are those of all images."""
    slid = Window(2, 20, 40, 3, 18, 38, 3, 3, 1, 1, 1, 1, 0, 0, View("x", 0, 120, 2400))
    strips = Strips(slid, layout(), BASE, MemorySpeed(None, 50))
    found = list(strips.widths())
    assert {width for width, _ in found} == {2, 3, 4, 5, 6, 7, 8, 10, 13}
    assert [first for width, first in found if width == 13] == [13, 6, 3, 1]
    one = dataclasses.replace(strips, window=dataclasses.replace(slid, n=1)).times(18, 4, 2, 4, 512)
    assert strips.times(18, 4, 2, 4, 512) == (2 * one[0], 2 * one[1])


# --- boxes


@settings(max_examples=100, deadline=None)
@given(windows(), st.integers(1, 5), st.integers(1, 3))
def test_a_box_of_a_result_is_its_bytes(window: Window, channels: int, size: int) -> None:
    cut = ImageBoxes(window, channels, 1)
    box = Box(window.n - 1, window.oh // 2, window.oh, 0, (window.ow + 1) // 2, channels // 2, channels)
    wanted = [
        (((box.image * window.oh + y) * window.ow + x) * channels + c) * size + byte
        for y in range(box.oy0, box.oy1)
        for x in range(box.ox0, box.ox1)
        for c in range(box.c0, box.c1)
        for byte in range(size)
    ]
    assert bytes_of(cut.stored(box, size)) == wanted
