"""One GO of the array with its configuration."""

import dataclasses

from tosaic.compiler.emit.box_transfers import BoxSource
from tosaic.compiler.emit.commands import Command, command
from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.place.depthwise_stream import depthwise_stream
from tosaic.compiler.place.weights import fits_pairs
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


def emit_array(emitter: Emitter, plan: ConvolutionPlan, go: ArrayGo) -> None:
    """The GO with its configuration. Steps that are never taken are zero: they might not fit their fields."""
    window, config = go.source.window, emitter.config
    x_start = -window.left * window.ic + go.tile.blob.input_offset - go.source.channel
    setup, command_go = (_depthwise if plan.layout.depthwise else _dense)(plan, go, x_start, config)
    wm = emitter.ring.spans(go.weights, go.blocks * go.tile.bytes)
    emitter.array(setup, command_go, go.source.span, wm, streamed=go.streamed)


def _input(plan: ConvolutionPlan, go: ArrayGo, x_start: int, y_start: int, config: Config) -> Command:
    """The image, and where its first window begins."""
    window = go.source.window
    return command(
        Opcode.ARRAY_INPUT,
        address=_wrapped(go.source.address + y_start * window.view.pitch + x_start, config),
        row_bytes=window.iw * window.ic,
        height=window.ih,
        input_zp=plan.input_zp,
        weight_zp=plan.weight_zp,
        unsigned_input=0,
    )


def _wrapped(step: int, config: Config) -> int:
    """An address or step that fits its field: addresses wrap at the end of the memory, a power of two."""
    return step if abs(step) <= largest(Opcode.ARRAY_WINDOW, "y_step_bytes") else step % config.am_bytes


def _dense(plan: ConvolutionPlan, go: ArrayGo, x_start: int, config: Config) -> tuple[list[Command], Command]:
    window = go.source.window
    pitch = window.view.pitch
    x_step = window.sx * window.ic if window.ow > 1 else 0
    y_step = window.sy if window.oh > 1 else 0
    dy = window.dy if window.kh > 1 else 0
    setup = [
        _input(plan, go, x_start, -window.top, config),
        command(
            Opcode.ARRAY_WINDOW,
            x_start=x_start,
            x_step=x_step,
            y_start=-window.top,
            y_step=y_step,
            y_step_bytes=_wrapped(y_step * pitch, config),
            width=window.ow,
        ),
        command(
            Opcode.ARRAY_KERNEL,
            ky_count=window.kh,
            ky_step=dy,
            ky_step_bytes=_wrapped(dy * pitch, config),
            run_count=plan.layout.run_count,
            run_step=window.dx * window.ic if plan.layout.run_count > 1 else 0,
            chunks=go.tile.blob.chunks or plan.layout.chunks,
        ),
    ]
    return setup, command(
        Opcode.ARRAY_GO,
        weights=go.weights // config.columns,
        pixels=window.oh * window.ow,
        accumulate=0,
        drain=1,
        more_blocks=go.blocks - 1,
        streamed=go.streamed,
    )


def _depthwise(
    plan: ConvolutionPlan, go: ArrayGo, x_start: int, config: Config
) -> tuple[list[Command], Command]:
    window = go.source.window
    pitch = window.view.pitch
    # Rows 2i and 2i + 1 enter together when a pixel's words are an even and an odd one.
    together = 2 if _pairs(go.source, x_start, config) else 1
    stream = depthwise_stream(window, together, config)
    y_start = stream.left_out - window.top
    setup = [
        _input(plan, go, x_start, y_start, config),
        command(
            Opcode.ARRAY_WINDOW,
            x_start=x_start,
            x_step=window.ic,
            y_start=y_start,
            y_step=together,
            y_step_bytes=together * pitch,
            width=stream.line,
        ),
        command(
            Opcode.ARRAY_DEPTHWISE,
            delay=stream.line + together * window.kw if window.kh > 1 else 2,
            skip=stream.skip,
            line=stream.line,
            out_width=window.ow,
            out_height=window.oh,
            x_stride=window.sx,
            y_stride=window.sy // together,
            paired=together == 2,
        ),
    ]
    return setup, command(
        Opcode.ARRAY_DEPTHWISE_GO,
        weights=go.weights // config.columns,
        advances=stream.advances,
        group_rows=window.kw,
        accumulate=0,
        drain=1,
    )


def _pairs(source: BoxSource, x_start: int, config: Config) -> bool:
    """Whether the depthwise mode takes two rows of this image per advance."""
    window, word_bytes = source.window, config.word_bytes
    pitch = window.view.pitch
    aligned = (source.address - window.top * pitch + x_start) % word_bytes == 0
    return aligned and pitch % (2 * word_bytes) == word_bytes and fits_pairs(window, config)
