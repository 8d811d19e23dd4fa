"""What one piece of a unit's work costs: a GO with its configuration, where nothing waits (`cost/clock.py`)."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tosaic.compiler.cost.clock import Batch, Tiles, dependent_batch_cycles
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.hw.config import Config
from tosaic.hw.constants import (
    BIAS_BYTES,
    NARROW_BIAS_BYTES,
    SCALE_BYTES,
    VECTOR_END_CYCLES,
    VECTOR_NEXT_EARLY_CYCLES,
)
from tosaic.hw.isa import Element, Instruction, Opcode
from tosaic.hw.slots import taps_wait_slots, tile_slots


@dataclasses.dataclass(frozen=True, slots=True)
class MovedRows:
    """Rows of a LOAD_GO or STORE_GO in external memory."""

    first: int
    """Address of the first row."""
    rows: int
    row_bytes: int
    pitch: int
    """Bytes from row to row."""


@dataclasses.dataclass(frozen=True, slots=True)
class VectorRun:
    """A VECTOR_GO as its batches go."""

    beats: Sequence[int]
    """Cycles of each micro-operation for a vector."""
    from_register: Sequence[bool]
    """Whether it reads a register, for each."""
    from_array: int | None
    """The number of the micro-operation that takes vectors of the array; None: none does."""
    body: tuple[int, int]
    """The first micro-operation that repeats, and the one behind the last."""
    repeats: int
    vectors: int
    slots: int
    """Vectors of a batch."""
    parameters_cycles: int
    blocks: int
    """Batches that bring parameters of their own."""


def array_tiles(go: Instruction, setup: Mapping[Opcode, Instruction], config: Config) -> Iterator[Tiles]:
    """Yields the tiles of a GO of the array; `setup` is its configuration by opcode."""
    if go.opcode is Opcode.ARRAY_DEPTHWISE_GO:
        yield from _lines(go, setup[Opcode.ARRAY_DEPTHWISE], config)
        return
    kernel, source = setup[Opcode.ARRAY_KERNEL], setup[Opcode.ARRAY_INPUT]
    steps = kernel.ky_count * kernel.run_count * kernel.chunks
    plain = go.drain and not go.accumulate and not go.streamed
    divisible = plain and not source.weight_zp and go.weights % config.columns == 0
    whole, rest = divmod(go.pixels, config.rows)
    for count, pixels in ((whole, config.rows), (1, rest)):
        if count and pixels:
            parts = config.row_parts(pixels) if divisible else 1
            delay = config.divided_rows // parts * (parts - 1)
            slots = tile_slots(steps, parts, config.columns)
            yield Tiles(count * (1 + go.more_blocks), slots, pixels if go.drain else 0, delay)


def _lines(go: Instruction, depthwise: Instruction, config: Config) -> Iterator[Tiles]:
    """Lines of a depthwise convolution: the vectors of a line leave while the next positions come."""
    rows, stride = config.rows - go.idle_rows, depthwise.x_stride
    wait = taps_wait_slots(rows, depthwise.skip)
    outputs = min(depthwise.out_width, -(-depthwise.line // stride))
    first, step = wait + depthwise.skip + rows, depthwise.line * depthwise.y_stride
    lines = 0
    if go.drain and outputs and first <= wait + go.advances:
        lines = min(depthwise.out_height, 1 + (wait + go.advances - first) // step)
        between = (outputs - 1) * stride
        yield Tiles(1, first, outputs, go.idle_rows, stride, alone=True)
        if lines > 1:
            yield Tiles(lines - 1, step - between, outputs, go.idle_rows, stride, alone=True)
        left = wait + go.advances - first - (lines - 1) * step - between
    else:
        left = wait + go.advances
    if left > 0:
        yield Tiles(1, left)


def tiles_cycles(tiles: Iterable[Tiles]) -> int:
    """Cycles of the array for tiles one after the other."""
    return sum(run.count * (run.slots + _alone(run)) for run in tiles)


def _alone(run: Tiles) -> int:
    return (run.vectors - 1) * run.spacing if run.alone else 0


def rows_cycles(moves: Iterable[MovedRows], config: Config, speed: MemorySpeed) -> float:
    """Cycles of the bus: short bursts come no faster than there is room for them."""
    word, cycles = config.word_bytes, 0.0
    beat = word / float(speed.bytes_per_cycle(config))
    for move in moves:
        # After a word's number of rows they begin within words as before.
        starts = [(move.first + row * move.pitch) % word for row in range(min(move.rows, word))]
        beats = [-(-(start + move.row_bytes) // word) for start in starts]
        least = speed.burst_cycles if move.rows > 1 else 0
        cycles += move.rows * sum(max(each * beat, least) for each in beats) / len(beats)
    return cycles


def vector_batches(run: VectorRun, config: Config) -> tuple[int, list[Batch]]:
    """Cycles of a GO that waits for nothing, and its batches where it takes vectors of the array."""
    steps, place = list(zip(run.beats, run.from_register, strict=True)), run.from_array
    first, last = run.body
    order = (*steps[:first], *(steps[first:last] * run.repeats), *steps[last:])
    takes = run.repeats if place is not None and first <= place < last else 1
    whole, rest = divmod(run.vectors, run.slots)
    total, batches, between = 0, list[Batch](), 0
    if run.blocks > 1:
        between = VECTOR_END_CYCLES - VECTOR_NEXT_EARLY_CYCLES + 1 + run.parameters_cycles
    for count, slots in ((whole, run.slots), (1, rest)):
        if not count or not slots:
            continue
        cycles = dependent_batch_cycles(order, slots, config.vector_latency_cycles) + between
        total += count * cycles
        if place is not None:
            beats = run.beats[place]
            batches.append(Batch(count * takes, slots, beats, max(0, cycles // takes - slots * beats)))
    # The first batch's parameters come before the GO.
    return total - between, batches


def parameters_cycles(bias_bytes: int, *, scale: bool) -> int:
    """Cycles of the parameters of a batch."""
    bias = NARROW_BIAS_BYTES if bias_bytes == NARROW_BIAS_BYTES else BIAS_BYTES
    return 1 + bias * bool(bias_bytes) + SCALE_BYTES * scale


def entries_cycles(count: int, config: Config) -> int:
    """Cycles of the entries of a table, or of offsets."""
    return 1 + -(-Element.INT32.bytes * count // config.columns)


def uop_beats(sizes: Iterable[int], lanes: int, config: Config) -> int:
    """Cycles of a micro-operation for a vector: one for each word of its widest elements, whose bytes are `sizes`."""
    lanes = lanes if 1 <= lanes <= config.columns else config.columns
    return -(-lanes // (config.columns // max([config.lane_columns, *sizes])))
