"""One GO of the array with its configuration."""

import dataclasses
import math
from collections.abc import Iterator

from tosaic.compiler.emit.box_transfers import BoxSource
from tosaic.compiler.emit.commands import Command, CommandTable
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.place.address import Span, activation_span
from tosaic.compiler.place.depthwise_stream import depthwise_stream
from tosaic.compiler.place.geometry import Window
from tosaic.compiler.place.tap_passes import fits_pairs, tap_rows
from tosaic.compiler.place.weights import MAX_COUNT
from tosaic.compiler.tile.convolution import ConvolutionPlan, Tile
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, largest


@dataclasses.dataclass(frozen=True)
class ArrayGo:
    """`blocks` tiles of output channels of a box, from `tile` on."""

    tile: Tile
    weights: int
    """Their byte address in weight memory."""
    source: BoxSource
    blocks: int = 1
    streamed: bool = False
    """The array waits for each word of the weights."""
    in_halves: bool = False
    """One tile of pixels goes through the kernel in two parts: the weights of the first one are done with early."""


@dataclasses.dataclass(frozen=True)
class _Taps:
    """Some rows of a kernel, or some chunks of its only row."""

    first_row: int
    rows: int
    first_chunk: int
    chunks: int
    first_word: int
    """The number of the first one of their words of weights."""
    words: int


def _taps(plan: ConvolutionPlan, go: ArrayGo) -> list[_Taps]:
    """The kernel of a GO: in one part, or in two."""
    rows, runs = go.source.window.kh, plan.layout.run_count
    chunks = go.tile.blob.chunks or plan.layout.chunks
    whole = _Taps(0, rows, 0, chunks, 0, rows * runs * chunks)
    if not go.in_halves:
        return [whole]
    if rows > 1:
        first = -(-rows // 2)
        word = first * runs * chunks
        return [
            dataclasses.replace(whole, rows=first, words=word),
            dataclasses.replace(
                whole, first_row=first, rows=rows - first, first_word=word, words=whole.words - word
            ),
        ]
    first = -(-chunks // 2)
    return [
        dataclasses.replace(whole, chunks=first, words=first),
        dataclasses.replace(
            whole, first_chunk=first, chunks=chunks - first, first_word=first, words=chunks - first
        ),
    ]


def emit_array(emitter: Emitter, plan: ConvolutionPlan, go: ArrayGo) -> None:
    """The GO, or GOs, with their configuration. Steps that are never taken are zero: they might not fit their
    fields."""
    config, table = emitter.config, emitter.table
    if plan.layout.depthwise:
        wm, image = (
            emitter.ring.spans(go.weights, go.tile.bytes),
            go.source.span_of(_x_start(go, 0), config.columns),
        )
        for setup, command_go in _depthwise(plan, go, config, table):
            emitter.array(setup, command_go, image, wm)
        return
    parts = _taps(plan, go)
    for taps in parts:
        weights = go.weights + taps.first_word * config.columns**2
        size = go.blocks * go.tile.bytes if len(parts) == 1 else taps.words * config.columns**2
        # Most GOs of a box differ in their weights only.
        known, key = go.source.setups, (go.tile.blob.input_offset, taps)
        if key not in known:
            known[key] = _dense_setup(plan, go, taps, config, table)
        command_go = table.command(
            Opcode.ARRAY_GO,
            weights=weights % config.wm_bytes // config.columns,
            pixels=go.source.pixels,
            accumulate=taps is not parts[0],
            drain=taps is parts[-1],
            more_blocks=go.blocks - 1,
            streamed=go.streamed,
        )
        wm = emitter.ring.spans(weights % config.wm_bytes, size)
        emitter.array(known[key], command_go, go.source.span, wm, streamed=go.streamed)


def last_tile_apart(plan: ConvolutionPlan, source: BoxSource, config: Config) -> list[BoxSource]:
    """The image of a tile of channels in two parts, of which the second one is the last tile of pixels; in one where it
    has no other, or where rows go on behind it."""
    window = source.window
    first = plan.pixels_before_the_last_tile(window.oh, window.ow, config)
    if not first:
        return [source]
    if window.pixelwise and not plan.keeps_rows and _fits_a_row(window):
        return [_of_pixels(source, 0, first), _of_pixels(source, first, window.oh * window.ow)]
    rows, columns = divmod(first, window.ow)
    if not columns:
        return [_of_rows(source, 0, rows), _of_rows(source, rows, window.oh)]
    last = _of_rows(source, rows, window.oh)
    behind = dataclasses.replace(last.window, ow=window.ow - columns, left=window.left - columns * window.sx)
    return [
        dataclasses.replace(_of_rows(source, 0, rows + 1), left_out=window.ow - columns),
        dataclasses.replace(last, window=behind),
    ]


def pixel_parts(plan: ConvolutionPlan, source: BoxSource, pixels: int) -> list[BoxSource]:
    """The image of a tile in parts of some pixels; in one where its pixels do not follow each other."""
    window = source.window
    if window.pixelwise and not plan.keeps_rows and _fits_a_row(window):
        count = source.pixels
        return [_of_pixels(source, first, min(first + pixels, count)) for first in range(0, count, pixels)]
    rows = pixels // window.ow
    if plan.strips or plan.layout.depthwise or rows * window.ow != pixels:
        return [source]
    return [_of_rows(source, first, min(first + rows, window.oh)) for first in range(0, window.oh, rows)]


def begun_early(
    plan: ConvolutionPlan, source: BoxSource, early: Span | None, config: Config
) -> list[BoxSource]:
    """The image of a tile in two parts, of which the first one reads no more than `early`, which is there before the
    rest; in one where that part would not fill the rows of the array."""
    if early is None or plan.layout.depthwise or not early.start <= source.address < early.end:
        return [source]
    window, there = source.window, early.end - source.address
    pitch = window.view.pitch
    if window.pixelwise and not plan.keeps_rows and pitch == window.iw * window.ic and _fits_a_row(window):
        first, pixels = there // window.ic // config.rows * config.rows, window.oh * window.ow
        return (
            [_of_pixels(source, *part) for part in ((0, first), (first, pixels))]
            if 0 < first < pixels
            else [source]
        )
    step = config.rows // math.gcd(config.rows, window.ow)
    for first in range((window.oh - 1) // step * step, 0, -step):
        _, high = window.input_rows(0, first)
        if (high - 1) * pitch + window.iw * window.ic <= there:
            return [_of_rows(source, 0, first), _of_rows(source, first, window.oh)]
    return [source]


def _fits_a_row(window: Window) -> bool:
    pixels = window.oh * window.ow
    return pixels <= MAX_COUNT and pixels * window.ic <= largest(Opcode.ARRAY_INPUT, "row_bytes")


def _of_pixels(source: BoxSource, first: int, last: int) -> BoxSource:
    """Pixels [first, last) of a pixelwise window, in one row."""
    window, count = source.window, last - first
    size, address = count * window.ic, source.address + first * window.ic
    view = dataclasses.replace(window.view, pitch=size)
    window = dataclasses.replace(window, ih=1, iw=count, oh=1, ow=count, view=view)
    return dataclasses.replace(
        source, window=window, address=address, span=activation_span(address, address + size)
    )


def _of_rows(source: BoxSource, first: int, last: int) -> BoxSource:
    """Rows [first, last) of a window's output."""
    window = source.window
    low, high = window.input_rows(first, last)
    start = source.address + low * window.view.pitch
    size = max(0, (high - low - 1) * window.view.pitch + window.iw * window.ic)
    window = dataclasses.replace(window, oh=last - first, top=window.top - first * window.sy)
    return dataclasses.replace(source, window=window, span=activation_span(start, start + size))


def _input(
    plan: ConvolutionPlan, go: ArrayGo, start: tuple[int, int], config: Config, table: CommandTable
) -> Command:
    """The image, and where its first window begins: at row and byte `start`."""
    window, (y_start, x_start) = go.source.window, start
    return table.command(
        Opcode.ARRAY_INPUT,
        address=_wrapped(go.source.address + y_start * window.view.pitch + x_start, config),
        row_bytes=window.iw * window.ic,
        height=window.ih,
        input_zp=plan.input_zp,
        weight_zp=plan.weight_zp,
        unsigned_input=0,
    )


def _x_start(go: ArrayGo, column: int) -> int:
    """Returns the place of the tile's first channel of a pixel in the image's row."""
    return column * go.source.window.ic + go.tile.blob.input_offset - go.source.channel


def _wrapped(step: int, config: Config) -> int:
    """An address or step that fits its field: addresses wrap at the end of the memory, a power of two."""
    return step if abs(step) <= largest(Opcode.ARRAY_WINDOW, "y_step_bytes") else step % config.am_bytes


def _dense_setup(
    plan: ConvolutionPlan, go: ArrayGo, taps: _Taps, config: Config, table: CommandTable
) -> list[Command]:
    """The image, the windows' steps, and the kernel's."""
    command, window = table.command, go.source.window
    pitch, dy = window.view.pitch, window.dy if window.kh > 1 else 0
    y_start = taps.first_row * dy - window.top
    x_start = _x_start(go, -window.left) + taps.first_chunk * config.columns
    x_step = window.sx * window.ic if window.ow > 1 else 0
    y_step = window.sy if window.oh > 1 else 0
    return [
        _input(plan, go, (y_start, x_start), config, table),
        command(
            Opcode.ARRAY_WINDOW,
            x_start=x_start,
            x_step=x_step,
            y_start=y_start,
            y_step=y_step,
            y_step_bytes=_wrapped(y_step * pitch, config),
            width=window.ow,
        ),
        command(
            Opcode.ARRAY_KERNEL,
            ky_count=taps.rows,
            ky_step=dy,
            ky_step_bytes=_wrapped(dy * pitch, config),
            run_count=plan.layout.run_count,
            run_step=window.dx * window.ic if plan.layout.run_count > 1 else 0,
            chunks=taps.chunks,
        ),
    ]


def _depthwise(
    plan: ConvolutionPlan, go: ArrayGo, config: Config, table: CommandTable
) -> Iterator[tuple[list[Command], Command]]:
    command = table.command
    passes, pitch = plan.layout.passes, go.source.window.view.pitch
    for number, taps in enumerate(passes):
        window = taps.window(go.source.window)
        row, column = taps.origin(go.source.window)
        x_start = _x_start(go, column)
        # Rows 2i and 2i + 1 enter together when a pixel's words are an even and an odd one.
        together = (
            2 if taps.y.step == 1 and _pairs(window, go.source.address + x_start + row * pitch, config) else 1
        )
        rows = tap_rows(window, passes, config)
        stream = depthwise_stream(window, together, rows)
        y_start, y_step = row + stream.left_out * taps.y.step, taps.y.step * together
        setup = [
            _input(plan, go, (y_start, x_start), config, table),
            command(
                Opcode.ARRAY_WINDOW,
                x_start=x_start,
                x_step=taps.x.step * window.ic,
                y_start=y_start,
                y_step=y_step,
                y_step_bytes=y_step * pitch,
                width=stream.line,
            ),
            command(
                Opcode.ARRAY_DEPTHWISE,
                delay=window.dy * stream.line + together * window.reach_columns if window.kh > 1 else 2,
                skip=stream.skip,
                line=stream.line,
                out_width=window.ow,
                out_height=window.oh,
                x_stride=window.sx,
                y_stride=window.sy // together,
                paired=together == 2,
            ),
        ]
        yield (
            setup,
            command(
                Opcode.ARRAY_DEPTHWISE_GO,
                weights=(go.weights // config.columns + number * rows) % config.wm_words,
                advances=stream.advances,
                group_rows=window.reach_columns,
                accumulate=number > 0,
                drain=number == len(passes) - 1,
                idle_rows=config.rows - rows,
            ),
        )


def _pairs(window: Window, address: int, config: Config) -> bool:
    """Whether the depthwise mode takes two rows of this image, whose first pixel is at `address`, per advance."""
    aligned = address % config.word_bytes == 0
    odd = window.view.pitch % (2 * config.word_bytes) == config.word_bytes
    return aligned and odd and fits_pairs(window, config)
