"""Which loads of a share come before a wait for another core: constants, as many as arrive until its token does.

More of them would hold up what the token stands for: LOAD brings one thing after the other, and a layer whose weights
come while it computes can start with the first of them, but not without its operands."""

import dataclasses

from tosaic.compiler.emit.commands import Work, command
from tosaic.compiler.emit.weight_ring import ring_spans
from tosaic.compiler.place.address import Region
from tosaic.hw.config import Config
from tosaic.hw.isa import Opcode, Space, Unit

_FIXED = frozenset({Region.CONSTANTS, Region.UNPACKED, Region.CODED})
"""What is there from the start."""


def early_constants(work: list[Work], ahead_bytes: int, config: Config) -> list[Work]:
    """The same work of a share, but in a row of loads with a wait the first `ahead_bytes` of constants come before
    it. A load of weights is divided where it is more than that."""
    found: list[Work] = []
    row: list[Work] = []
    for item in [*work, None]:
        if item is not None and item.unit is Unit.LOAD:
            row.append(item)
            continue
        if any(load.waits_for_core for load in row):
            row, ahead_bytes = _ordered(row, ahead_bytes, config)
        found += row
        row = []
        if item is not None:
            found.append(item)
    return found


def _ordered(row: list[Work], room: int, config: Config) -> tuple[list[Work], int]:
    """The loads of a row, and what is left of the room."""
    early: list[Work] = []
    late: list[Work] = []
    for load in row:
        size = _constant_bytes(load)
        if not size or room <= 0:
            late.append(load)
            continue
        first, rest = _divided(load, room, config)
        early.append(first)
        room -= _constant_bytes(first)
        late += [rest] if rest is not None else []
    return early + late, room


def _constant_bytes(load: Work) -> int:
    """What a load of constants reads; 0 for other loads."""
    if load.waits_for_core or any(span.region not in _FIXED for span in load.reads):
        return 0
    return sum(span.end - span.start for span in load.reads)


def _divided(load: Work, room: int, config: Config) -> tuple[Work, Work | None]:
    """A load of a row of weights as two, the first of about `room` bytes; other loads as they are."""
    fields = load.commands[-1].instruction.fields
    unit = config.rows * config.columns
    size = -(-room // unit) * unit
    source = load.commands[-1].address
    if (
        len(load.commands) > 1
        or load.commands[0].instruction.opcode is not Opcode.LOAD_GO
        or source is None
        or fields["space"] != Space.WM
        or fields["rows"] > 1
        or fields["packed"]
        or fields["row_bytes"] <= size
    ):
        return load, None
    start, whole = fields["local_address"], fields["row_bytes"]
    parts = []
    for first, last in ((0, size), (size, whole)):
        place = (start + first) % config.wm_bytes
        changed = {**fields, "local_address": place, "row_bytes": last - first}
        changed.pop("memory_address")
        go = command(Opcode.LOAD_GO, source + first, **changed)
        reads, writes = (
            [(source + first).span(last - first)],
            ring_spans(place, last - first, config.wm_bytes),
        )
        parts.append(dataclasses.replace(load, commands=[go], reads=reads, writes=writes))
    return parts[0], parts[1]
