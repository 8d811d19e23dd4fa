"""Pieces of work as the clock of the units takes them (`cost/pieces.py` tells what they cost)."""

from collections.abc import Iterator, Sequence

from tosaic.compiler.cost.clock import MemoryPass, UnitWork
from tosaic.compiler.cost.pieces import (
    MovedRows,
    VectorRun,
    array_tiles,
    entries_cycles,
    parameters_cycles,
    rows_cycles,
    tiles_cycles,
    uop_beats,
    vector_batches,
)
from tosaic.compiler.emit.commands import Work
from tosaic.compiler.emit.vector_go import Access, VectorGo
from tosaic.compiler.memory_speed import MemorySpeed
from tosaic.compiler.place.address import Region, Span
from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Instruction, Opcode, Source, Unit

_GOS = {Opcode.LOAD_GO, Opcode.STORE_GO}


def unit_work(work: Work, go: VectorGo | None, config: Config, speed: MemorySpeed) -> UnitWork:
    """The piece, before it is known which others it waits for. `work` has all configuration that it needs, but for
    VECTOR's, which is that of `go`."""
    commands = len(work.commands) + 1
    match work.unit:
        case Unit.ARRAY:
            setup = {item.instruction.opcode: item.instruction for item in work.configuration}
            tiles = list(array_tiles(work.commands[-1].instruction, setup, config))
            passes = _array_passes(work, config)
            return UnitWork(Unit.ARRAY, tiles_cycles(tiles), commands, tiles=tiles, passes=passes)
        case Unit.VECTOR:
            return UnitWork(Unit.VECTOR, 0, commands) if go is None else _vector_work(go, commands, config)
    spans = work.writes if work.unit is Unit.LOAD else work.reads
    moved = [MemoryPass(span.start, span.end - 1, 1) for span in spans if span.region is Region.ACTIVATION]
    rows = list(_moved_rows(work)) or [MovedRows(0, 1, _bytes(spans), 0)]
    return UnitWork(work.unit, rows_cycles(rows, config, speed), commands, passes=moved)


def _moved_rows(work: Work) -> Iterator[MovedRows]:
    pitch = 0
    for item in work.commands:
        go = item.instruction
        if go.opcode in (Opcode.LOAD_PITCH, Opcode.STORE_PITCH):
            pitch = go.memory_pitch
        elif go.opcode in _GOS:
            first = item.address.offset if item.address is not None else 0
            yield MovedRows(first, go.rows, go.row_bytes, pitch)


def _bytes(spans: Sequence[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def _array_passes(work: Work, config: Config) -> list[MemoryPass]:
    go, [span, *_] = work.commands[-1].instruction, work.reads
    share = min(1.0, go.pixels / config.columns) if go.opcode is Opcode.ARRAY_GO else 1.0
    return [MemoryPass(span.start, span.end, share)]


def _vector_work(go: VectorGo, commands: int, config: Config) -> UnitWork:
    uops = [each for each in go.program.instructions if each.opcode is Opcode.VECTOR_UOP]
    beats = [_beats(uop, go, config) for uop in uops]
    run = VectorRun(
        beats,
        [Source.REGISTER in (uop.a_source, uop.b_source) for uop in uops],
        next((number for number, uop in enumerate(uops) if uop.a_source == Source.ARRAY), None),
        (go.program.body_start, go.program.body_end),
        go.repeats,
        go.vectors,
        go.slots,
        lead := 0 if go.params is None else parameters_cycles(go.params.bias_bytes, scale=go.params.scale),
        0 if go.params is None else go.params.blocks,
    )
    lead += sum(entries_cycles(each.count, config) for each in (go.table, go.offsets) if each is not None)
    cycles, batches = vector_batches(run, config)
    reads, writes = _vector_passes(go, uops, beats)
    return UnitWork(Unit.VECTOR, cycles, commands, lead, batches=batches, passes=reads, writes=writes)


def _vector_passes(
    go: VectorGo, uops: Sequence[Instruction], beats: Sequence[int]
) -> tuple[list[MemoryPass], list[MemoryPass]]:
    """What VECTOR reads and writes."""
    reads, writes = list[MemoryPass](), list[MemoryPass]()
    for place, (uop, each) in enumerate(zip(uops, beats, strict=True)):
        times = go.vectors * (go.repeats if go.program.body_start <= place < go.program.body_end else 1)
        reads += [_pass(access, each, times) for access in _loads(uop, go)]
        writes += [_pass(go.streams[STORE_STREAM], each, times)] if uop.to_memory else []
    return reads, writes


def _pass(access: Access, beats: int, times: int) -> MemoryPass:
    end = access.address + sum((dim.count - 1) * dim.stride for dim in access.dims)
    return MemoryPass(access.address, end, beats, beats * times)


def _loads(uop: Instruction, go: VectorGo) -> list[Access]:
    operands = (uop.a_source, uop.a_index), (uop.b_source, uop.b_index)
    return [go.streams[index] for source, index in operands if source == Source.LOAD]


def _beats(uop: Instruction, go: VectorGo, config: Config) -> int:
    sizes = [stream.element.bytes for stream in _loads(uop, go) if not stream.splat]
    if uop.to_memory:
        sizes.append(go.streams[STORE_STREAM].element.bytes)
    return uop_beats(sizes, go.lanes, config)
