"""What a piece of work costs its unit, for the clock of the units (`cost/clock.py`)."""

from collections.abc import Iterator, Sequence

from tosaic.compiler.cost.clock import Batch, MemoryPass, Tiles, UnitWork, batch_cycles
from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.vector_go import Access, VectorGo
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Region, Span
from tosaic.hw.config import Config
from tosaic.hw.constants import (
    BIAS_BYTES,
    NARROW_BIAS_BYTES,
    SCALE_BYTES,
    VECTOR_END_CYCLES,
    VECTOR_NEXT_EARLY_CYCLES,
)
from tosaic.hw.isa import STORE_STREAM, Element, Instruction, Opcode, Source, Unit
from tosaic.hw.slots import taps_wait_slots, tile_slots

_GOS = {Opcode.LOAD_GO, Opcode.STORE_GO}


def unit_work(work: Work, go: VectorGo | None, config: Config, speed: MemorySpeed) -> UnitWork:
    """The piece, before it is known which others it waits for. `work` has all configuration that it needs, but for
    VECTOR's, which is that of `go`."""
    commands = len(work.commands) + 1
    match work.unit:
        case Unit.ARRAY:
            tiles = list(_tiles(work, config))
            cycles = sum(run.count * (run.slots + _alone(run)) for run in tiles)
            return UnitWork(Unit.ARRAY, cycles, commands, tiles=tiles, passes=_array_passes(work, config))
        case Unit.VECTOR:
            if go is None:
                return UnitWork(Unit.VECTOR, 0, commands)
            cycles, batches = _batches(go, config)
            reads, writes = _vector_passes(go, config)
            lead = _lead_cycles(go, config)
            return UnitWork(Unit.VECTOR, cycles, commands, lead, batches=batches, passes=reads, writes=writes)
    spans = work.writes if work.unit is Unit.LOAD else work.reads
    moved = [MemoryPass(span.start, span.end - 1, 1) for span in spans if span.region is Region.ACTIVATION]
    return UnitWork(work.unit, _moving_cycles(work, config, speed), commands, passes=moved)


def _alone(run: Tiles) -> int:
    return (run.vectors - 1) * run.spacing if run.alone else 0


def _moving_cycles(work: Work, config: Config, speed: MemorySpeed) -> float:
    """Cycles of the bus: short bursts come no faster than there is room for them."""
    word, cycles, pitch = config.word_bytes, 0.0, 0
    beat = word / float(speed.bytes_per_cycle(config))
    for item in work.commands:
        go = item.instruction
        if go.opcode in (Opcode.LOAD_PITCH, Opcode.STORE_PITCH):
            pitch = go.memory_pitch
        elif go.opcode in _GOS:
            first = item.address.offset if item.address is not None else 0
            # After a word's number of rows they begin within words as before.
            starts = [(first + row * pitch) % word for row in range(min(go.rows, word))]
            beats = [-(-(start + go.row_bytes) // word) for start in starts]
            least = speed.burst_cycles if go.rows > 1 else 0
            cycles += go.rows * sum(max(each * beat, least) for each in beats) / len(beats)
    return cycles or _bytes(work.writes if work.unit is Unit.LOAD else work.reads) / word * beat


def _bytes(spans: Sequence[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def _tiles(work: Work, config: Config) -> Iterator[Tiles]:
    go = work.commands[-1].instruction
    setup = {item.instruction.opcode: item.instruction for item in work.configuration}
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


def _array_passes(work: Work, config: Config) -> list[MemoryPass]:
    go, [span, *_] = work.commands[-1].instruction, work.reads
    share = min(1.0, go.pixels / config.columns) if go.opcode is Opcode.ARRAY_GO else 1.0
    return [MemoryPass(span.start, span.end, share)]


def _vector_passes(go: VectorGo, config: Config) -> tuple[list[MemoryPass], list[MemoryPass]]:
    """What VECTOR reads and writes."""
    reads, writes, program = list[MemoryPass](), list[MemoryPass](), go.program
    uops = [each for each in program.instructions if each.opcode is Opcode.VECTOR_UOP]
    for place, uop in enumerate(uops):
        times = go.vectors * (go.repeats if program.body_start <= place < program.body_end else 1)
        beats = _beats(uop, go, config)
        loads = [go.streams[index] for source, index in _operands(uop) if source == Source.LOAD]
        reads += [_pass(access, beats, times) for access in loads]
        writes += [_pass(go.streams[STORE_STREAM], beats, times)] if uop.to_memory else []
    return reads, writes


def _pass(access: Access, beats: int, times: int) -> MemoryPass:
    end = access.address + sum((dim.count - 1) * dim.stride for dim in access.dims)
    return MemoryPass(access.address, end, beats, beats * times)


def _operands(uop: Instruction) -> tuple[tuple[int, int], ...]:
    return (uop.a_source, uop.a_index), (uop.b_source, uop.b_index)


def _batches(go: VectorGo, config: Config) -> tuple[int, list[Batch]]:
    """Cycles of a GO that waits for nothing, and its batches where it takes vectors of the array."""
    program, latency = go.program, config.vector_latency_cycles
    uops = [each for each in program.instructions if each.opcode is Opcode.VECTOR_UOP]
    steps = [(_beats(uop, go, config), Source.REGISTER in (uop.a_source, uop.b_source)) for uop in uops]
    first, last = program.body_start, program.body_end
    order = (*steps[:first], *(steps[first:last] * go.repeats), *steps[last:])
    place = next((number for number, uop in enumerate(uops) if uop.a_source == Source.ARRAY), None)
    takes = go.repeats if place is not None and first <= place < last else 1
    whole, rest = divmod(go.vectors, go.slots)
    total, batches, between = 0, [], 0
    if go.params is not None and go.params.blocks > 1:
        between = VECTOR_END_CYCLES - VECTOR_NEXT_EARLY_CYCLES + 1 + _params_cycles(go)
    for count, slots in ((whole, go.slots), (1, rest)):
        if not count or not slots:
            continue
        cycles = batch_cycles(order, slots, latency) + between
        total += count * cycles
        if place is not None:
            beats = steps[place][0]
            batches.append(Batch(count * takes, slots, beats, max(0, cycles // takes - slots * beats)))
    # The first batch's parameters come before the GO.
    return total - between, batches


def _params_cycles(go: VectorGo) -> int:
    if go.params is None:
        return 0
    bias = NARROW_BIAS_BYTES if go.params.bias_bytes == NARROW_BIAS_BYTES else BIAS_BYTES
    return 1 + bias * bool(go.params.bias_bytes) + SCALE_BYTES * go.params.scale


def _lead_cycles(go: VectorGo, config: Config) -> int:
    """Cycles of parameters, table and offsets."""
    cycles = _params_cycles(go)
    for entries in (go.table, go.offsets):
        cycles += 0 if entries is None else 1 + -(-Element.INT32.bytes * entries.count // config.columns)
    return cycles


def _beats(uop: Instruction, go: VectorGo, config: Config) -> int:
    """Cycles of a micro-operation for a vector: one for each word of its widest elements."""
    streams = [go.streams[index] for source, index in _operands(uop) if source == Source.LOAD]
    sizes = [stream.element.bytes for stream in streams if not stream.splat]
    if uop.to_memory:
        sizes.append(go.streams[STORE_STREAM].element.bytes)
    lanes = go.lanes if 1 <= go.lanes <= config.columns else config.columns
    return -(-lanes // (config.columns // max([config.lane_columns, *sizes])))
