"""The array's commands for a box, of an image that is begun before all of it is there, and bytes of some channels."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_programs import UnitProgram

from tosaic.compiler.emit.array_go import ArrayGo, begun_early, emit_array
from tosaic.compiler.emit.box_transfers import BoxPlace, BoxSource
from tosaic.compiler.emit.commands import Command
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.fuse.moves import Move
from tosaic.compiler.place.address import Address, Columns, Region, Span, activation_span
from tosaic.compiler.place.external import ExternalMemory
from tosaic.compiler.place.geometry import View, Window
from tosaic.compiler.place.tap_passes import AxisTaps, TapPass
from tosaic.compiler.place.weights import MAX_COUNT, Blob, WeightLayout
from tosaic.compiler.tile.convolution import ConvolutionPlan, Tile
from tosaic.compiler.tile.packer import PackedWeights
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Opcode, largest

SMALL = get_config("small")
ROWS, WORD = SMALL.rows, SMALL.columns
ADDRESS = 4096


def window(ih: int, iw: int, ic: int, *, pitch: int = 0, **changed: int) -> Window:
    """Returns a window with one output for each pixel, where nothing is changed."""
    pitch = pitch or iw * ic
    sizes = dict(n=1, oh=ih, ow=iw, kh=1, kw=1, sy=1, sx=1, dy=1, dx=1, top=0, left=0) | changed
    return Window(**sizes, ih=ih, iw=iw, ic=ic, view=View("x", 0, pitch, ih * pitch))


def source(slid: Window) -> BoxSource:
    size = (slid.ih - 1) * slid.view.pitch + slid.iw * slid.ic
    return BoxSource(slid, ADDRESS, activation_span(ADDRESS, ADDRESS + size), 0)


def plan(
    slid: Window,
    *,
    run_count: int = 1,
    chunks: int = 1,
    depthwise: bool = False,
    pixels: int = 1,
) -> ConvolutionPlan:
    """Returns the plan of a tile of all channels, whose weights are at the start of the constants. With several
    `pixels` in a vector it keeps the image's rows."""
    size = WORD * WORD * slid.kh * run_count * chunks
    passes = (TapPass(AxisTaps(0, slid.kh), AxisTaps(0, slid.kw)),) if depthwise else ()
    blob, start = Blob(0, WORD, 0), Address(Region.CONSTANTS, 0)
    layout = WeightLayout(Move((size,), ()), [blob], size, run_count, chunks, passes=passes)
    return ConvolutionPlan(
        slid,
        [Tile(start, size, blob, start, size)],
        WORD,
        pixels,
        layout,
        PackedWeights(start, size),
        input_zp=3,
        weight_zp=-2,
        bias=np.zeros(WORD, np.int32),
        macs=0,
    )


def there(size: int) -> Span:
    """What is there early: the first bytes of the image."""
    return activation_span(ADDRESS - 64, ADDRESS + size)


# --- an image in two parts


@pytest.mark.parametrize(
    "early, pixels",
    [
        (8 * ROWS - 1, None),
        (8 * ROWS, ROWS),
        (16 * ROWS - 1, ROWS),
        (16 * ROWS, 2 * ROWS),
        (8 * 6 * ROWS - 1, 5 * ROWS),
        (8 * 6 * ROWS, None),
    ],
)
def test_pixels_that_are_begun_early_fill_the_rows_of_the_array(early: int, pixels: int | None) -> None:
    """An image of 6 x ROWS pixels of 8 bytes is begun early in parts that fill the rows; it is begun at once where
    all pixels are there."""
    whole = source(window(6, ROWS, 8))
    parts = begun_early(plan(whole.window), whole, there(early), SMALL)
    if pixels is None:
        assert parts == [whole]
        return
    size, count = 8 * pixels, 6 * ROWS
    assert [(part.address, part.span) for part in parts] == [
        (ADDRESS, activation_span(ADDRESS, ADDRESS + size)),
        (ADDRESS + size, activation_span(ADDRESS + size, ADDRESS + 8 * count)),
    ]
    for part, own in zip(parts, (pixels, count - pixels), strict=True):
        view = View("x", 0, 8 * own, 8 * count)
        assert part.window == dataclasses.replace(window(1, own, 8), view=view)


@pytest.mark.parametrize(
    "early, changed",
    [
        (None, {}),
        (activation_span(ADDRESS + 1, ADDRESS + 512), {}),
        (activation_span(ADDRESS - 512, ADDRESS), {}),
        (there(512), dict(depthwise=True)),
    ],
)
def test_what_is_begun_in_one(early: Span | None, changed: dict) -> None:
    whole = source(window(6, ROWS, 8))
    assert begun_early(plan(whole.window, **changed), whole, early, SMALL) == [whole]
    assert (
        len(begun_early(plan(whole.window), whole, activation_span(ADDRESS, ADDRESS + 8 * ROWS), SMALL)) == 2
    )


def split(slid: Window, early: int, **changed: int) -> list[tuple[int, int, int]]:
    """(height of the output, rows above the image, bytes that are read) of each part."""
    parts = begun_early(plan(slid, **changed), source(slid), there(early), SMALL)
    assert all(part.address == ADDRESS and part.window.ow == slid.ow for part in parts)
    return [(each.window.oh, each.window.top, each.span.end - each.span.start) for each in parts]


def test_rows_that_are_begun_early() -> None:
    """An image of ten rows of 4 pixels of 4 bytes is begun early; each of its rows sees the rows above and below
    it."""
    slid = window(10, 4, 4, kh=3, top=1)
    step = ROWS // 4
    for rows in range(step, 9, step):
        # The first `rows` rows see one more.
        wanted = [(rows, 1, 16 * (rows + 1)), (10 - rows, 1 - rows, 16 * (11 - rows))]
        assert split(slid, 16 * (rows + 1)) == wanted
        assert split(slid, 16 * (rows + step + 1) - 1) == wanted
    assert split(slid, 16 * (step + 1) - 1) == [(10, 1, 160)]


def test_the_last_row_that_is_read_ends_with_its_pixels() -> None:
    """Rows are 40 bytes apart, of which 32 are pixels."""
    slid = window(4, ROWS, 32 // ROWS, pitch=40)
    assert [each[0] for each in split(slid, 2 * 40 + 32)] == [3, 1]
    assert [each[0] for each in split(slid, 2 * 40 + 31)] == [2, 2]
    parts = begun_early(plan(slid), source(slid), there(2 * 40 + 32), SMALL)
    assert [part.span for part in parts] == [
        activation_span(ADDRESS, ADDRESS + 112),
        activation_span(ADDRESS + 120, ADDRESS + 152),
    ]


def test_a_row_alone_is_not_divided() -> None:
    slid = window(1, ROWS, 4, kw=1, oh=1)
    assert split(dataclasses.replace(slid, sx=2, ow=ROWS // 2), 1 << 12) == [(1, 0, 4 * ROWS)]


@pytest.mark.parametrize(
    "slid, changed",
    [
        (window(4, ROWS, 8), dict(pixels=2)),
        (window(4, ROWS, 8, pitch=8 * ROWS + 8), {}),
        (window(4, ROWS, 8, kh=2, oh=3), {}),
        (window(2, ROWS, (largest(Opcode.ARRAY_INPUT, "row_bytes") + 1) // ROWS), {}),
        (window(MAX_COUNT // ROWS + 1, ROWS, 1), {}),
    ],
)
def test_pixels_whose_rows_count_are_divided_between_rows(slid: Window, changed: dict) -> None:
    """Where the plan needs them, where they lie apart, where outputs see several, and where all pixels are no row."""
    parts = begun_early(
        plan(slid, **changed), source(slid), there(3 * ROWS * slid.ic // 2 + slid.view.pitch), SMALL
    )
    assert len(parts) == 2
    assert {part.window.ow for part in parts} == {slid.ow}
    assert sum(part.window.oh for part in parts) == slid.oh


def test_pixels_that_are_just_one_row() -> None:
    """They are one row if they are as many pixels, or bytes of them, as the fields say."""
    row_bytes = largest(Opcode.ARRAY_INPUT, "row_bytes")
    for pixels, channels in ((MAX_COUNT, 1), (1365, row_bytes // 1365)):
        slid = window(3, pixels // 3, channels)
        assert 3 * slid.iw * channels == {1: MAX_COUNT}.get(channels, row_bytes)
        for part in begun_early(plan(slid), source(slid), there(ROWS * channels), SMALL):
            assert part.window.oh == 1


# --- commands


def commands(slid: Window, early: int | None = None, **changed: int) -> list[list[Command]]:
    """Returns the commands of each GO, with its whole configuration."""
    found = []
    early_span = None if early is None else there(early)
    for part in begun_early(plan(slid, **changed), source(slid), early_span, SMALL):
        emitter = Emitter(SMALL, ExternalMemory())
        own = plan(slid, **changed)
        emit_array(emitter, own, ArrayGo(own.tiles[0], 0, part))
        (work,) = emitter.blocks.all[0].work
        assert work.reads[0] == part.span
        found.append([*work.configuration, *work.commands])
    return found


def fields(slid: Window, **changed: int) -> dict[str, int]:
    (own,) = commands(slid, **changed)
    return {name: value for each in own for name, value in each.instruction.fields.items()}


def test_steps_that_are_taken() -> None:
    slid = window(9, 7, 4, kh=3, kw=2, sy=2, sx=3, dy=2, dx=1, top=1, left=2, oh=4, ow=3)
    found = fields(slid, run_count=2, chunks=3)
    wanted = dict(row_bytes=28, height=9, input_zp=3, weight_zp=-2, address=ADDRESS - 28 - 8)
    wanted |= dict(x_start=-8, x_step=12, y_start=-1, y_step=2, y_step_bytes=56, width=3)
    wanted |= dict(ky_count=3, ky_step=2, ky_step_bytes=56, run_count=2, run_step=4, chunks=3)
    wanted |= dict(pixels=12, accumulate=0, drain=1, more_blocks=0, streamed=0)
    assert {name: found[name] for name in wanted} == wanted


def test_steps_that_are_never_taken_are_zero() -> None:
    slid = window(9, 7, 4, kh=1, kw=1, sy=2, sx=3, dy=2, dx=3, oh=1, ow=1)
    found = fields(slid)
    assert [
        found[name] for name in ("x_step", "y_step", "y_step_bytes", "ky_step", "ky_step_bytes", "run_step")
    ] == [0] * 6
    assert fields(dataclasses.replace(slid, ow=2))["x_step"] == 12
    assert fields(dataclasses.replace(slid, oh=2))["y_step_bytes"] == 56
    assert fields(dataclasses.replace(slid, kh=2))["ky_step_bytes"] == 56
    assert fields(dataclasses.replace(slid, kw=2), run_count=2)["run_step"] == 12


def test_steps_that_do_not_fit_their_field_go_round_the_memory() -> None:
    limit = largest(Opcode.ARRAY_WINDOW, "y_step_bytes")
    for pitch, wanted in ((limit, limit), (limit + 1, (limit + 1) % SMALL.am_bytes)):
        found = fields(window(2, 7, 4, pitch=pitch, kh=2, oh=2, top=1))
        assert found["y_step_bytes"] == found["ky_step_bytes"] == wanted


def sums(slid: Window, early: int | None) -> np.ndarray:
    """What the emulator's array makes of the commands, in order."""
    random, program = np.random.default_rng(1), UnitProgram(SMALL)
    program.put(0, random.integers(0, 256, SMALL.am_bytes, np.uint8))
    program.wm[0, : WORD * slid.kh * WORD] = random.integers(0, 256, WORD * slid.kh * WORD, np.uint8)
    for own in commands(slid, early):
        program.commands += [each.instruction for each in own]
    vectors = slid.oh * slid.ow
    program.store_sums(0, vectors)
    return program.executed()[0, : 4 * WORD * vectors].view("<i4")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_parts_of_an_image_are_computed_as_the_whole_is(data: st.DataObject) -> None:
    ih, iw = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 2 * ROWS))
    kh, sy = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    top = data.draw(st.integers(0, kh - 1))
    oh = max(1, (ih + top - kh) // sy + 1)
    pitch = WORD * (iw + data.draw(st.integers(0, 1)))
    slid = window(ih, iw, WORD, pitch=pitch, kh=kh, sy=sy, top=top, oh=oh)
    early = data.draw(st.integers(1, ih * slid.view.pitch))
    np.testing.assert_array_equal(sums(slid, early), sums(slid, None))


# --- some channels of all pixels


@pytest.mark.parametrize(
    "first, width, columns",
    [
        (0, 24, None),
        (0, 25, None),
        (8, 16, Columns(24, (ADDRESS + 8) % 24, 16)),
        (8, 17, None),
        (0, 8, Columns(24, ADDRESS % 24, 8)),
    ],
)
def test_bytes_of_the_same_channels_of_pixels(first: int, width: int, columns: Columns | None) -> None:
    """The span of three pixels of 24 bytes names the bytes of some channels; it is whole where a pixel has no more
    bytes, or where the next pixel is read, too."""
    box = source(window(2, 3, 24))
    assert box.span_of(first, width) == dataclasses.replace(box.span, columns=columns)


@pytest.mark.parametrize("row_bytes, gap", [(72, False), (80, True)])
def test_bytes_of_the_same_channels_where_rows_are_apart(row_bytes: int, gap: bool) -> None:
    place = BoxPlace(ADDRESS, row_bytes, 24, 2 * row_bytes)
    apart = Columns(row_bytes, (ADDRESS + 8) % row_bytes, 16, 24, 3)
    wanted = apart if gap else Columns(24, (ADDRESS + 8) % 24, 16)
    assert place.span_of(8, 16) == Span(place.span.region, ADDRESS, ADDRESS + 2 * row_bytes, columns=wanted)
    assert place.span_of(8, 24) == place.span
