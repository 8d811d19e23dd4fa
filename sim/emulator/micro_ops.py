"""What a VECTOR_UOP may be, what it needs beside itself, and how many beats its slots take."""

import dataclasses
from collections.abc import Sequence

from tosaic.hw.config import Config
from tosaic.hw.isa import STORE_STREAM, Error, Instruction, Op, Source

from .faults import Fault
from .streams import Stream

BIAS, SCALE = "bias", "scale"
"""What VECTOR_PARAM loads: the names of its fields."""
TABLE, BIG_TABLE = "table of 256 entries", "table of 512 entries"
_OPERATIONS, _SOURCES = frozenset(map(int, Op)), frozenset(map(int, Source))


def check_index(instruction: Instruction, config: Config) -> None:
    """Fault ILLEGAL unless there is a micro-op of this number."""
    if instruction.index >= config.vector_uops:
        raise Fault(
            Error.ILLEGAL, f"there are micro-ops 0..{config.vector_uops - 1}, not {instruction.index}"
        )


def check_uop(uop: Instruction, config: Config) -> None:
    """Fault ILLEGAL where the hardware finds the fields of a VECTOR_UOP wrong."""
    check_index(uop, config)
    if uop.op not in _OPERATIONS:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} has the unknown operation {uop.op}")
    _check_source(uop, uop.a_source, uop.a_index, config)
    _check_source(uop, uop.b_source, uop.b_index, config)
    if uop.b_source == Source.ARRAY:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} takes B from the array, which only A can")
    if uop.a_source == uop.b_source == Source.LOAD:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} loads both A and B")
    if not uop.to_memory and uop.destination >= config.vector_registers:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} writes register {uop.destination}")


def _check_source(uop: Instruction, source: int, index: int, config: Config) -> None:
    if source not in _SOURCES:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} has the unknown source {source}")
    if source == Source.LOAD and index >= STORE_STREAM:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} loads from stream {index}; there are 0..2")
    if source == Source.REGISTER and index >= config.vector_registers:
        raise Fault(Error.ILLEGAL, f"micro-op {uop.index} reads register {index}")


@dataclasses.dataclass(frozen=True)
class SlotBeats:
    """The beats of a slot, and how many lanes, from lane 0 on, have one."""

    count: int
    lanes: int


def beats_of(uop: Instruction, go: Instruction, streams: Sequence[Stream], config: Config) -> SlotBeats:
    """A slot takes a beat for each word of its widest elements, and for each column of a lane, up to the last lane of
    the GO."""
    columns = config.columns
    loads = (uop.a_source, uop.a_index), (uop.b_source, uop.b_index)
    sizes = [
        streams[i].element.bytes for source, i in loads if source == Source.LOAD and not streams[i].splat
    ]
    if uop.to_memory:
        sizes.append(streams[STORE_STREAM].element.bytes)
    per_beat = columns // max([config.lane_columns, *sizes])
    count = -(-lanes_of(go, columns) // per_beat)
    return SlotBeats(count, count * per_beat)


def lanes_of(go: Instruction, columns: int) -> int:
    """The lanes of a GO's vectors: none, or more than there are, count as all."""
    return go.lanes if 1 <= go.lanes <= columns else columns


def needs_bounds(uop: Instruction) -> bool:
    """Whether it takes something out of VECTOR_BOUNDS."""
    return bool(uop.clamp) or Source.IMMEDIATE in (uop.a_source, uop.b_source)


def uses(uop: Instruction) -> set[str]:
    """Returns those of BIAS, SCALE, TABLE and BIG_TABLE that must be loaded before it is executed."""
    used = set()
    if uop.bias:
        used.add(BIAS)
    if uop.op == Op.RESCALE and uop.per_channel:
        used.add(SCALE)
    if uop.op in (Op.TABLE8, Op.TABLE16):
        used.add(TABLE if uop.op == Op.TABLE8 else BIG_TABLE)
    return used
