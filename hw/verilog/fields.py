"""Parts of records by their names in Python."""

import collections

from .expressions import Expression, join
from .module import Module
from .rtlil import RtlilSlice

MOST_FIELDS = 4
"""Fields side by side that are written by their names."""


def is_python(name: str) -> bool:
    """Whether Python gave a name: not to `$12` and `\\$signal$3`, nor to the members of a component's only port."""
    return not name.startswith(("$", "\\$", "\\signature__", "\\port$"))


def fields_of(module: Module) -> dict[str, dict[str, RtlilSlice]]:
    """The parts of each wire that have a name, by it."""
    fields: dict[str, list[tuple[RtlilSlice, str]]] = collections.defaultdict(list)
    for name, value in module.aliases:
        if (
            isinstance(value, RtlilSlice)
            and value != module.signals[value.wire].whole
            and is_python(name.wire)
        ):
            fields[value.wire].append((value, name.wire))
    return {wire: _distinct(parts) for wire, parts in fields.items()}


def _distinct(parts: list[tuple[RtlilSlice, str]]) -> dict[str, RtlilSlice]:
    """Fields by name, without those that another one overlaps or that have two names: the arms of a union."""
    by_place: dict[RtlilSlice, list[str]] = collections.defaultdict(list)
    for place, name in parts:
        by_place[place].append(name)
    distinct = {}
    for place, names in by_place.items():
        low, high = place.low, place.low + place.bits
        alike = len({name.rpartition(".")[2].partition("$")[0] for name in names}) == 1
        across = any(
            other.low < high and low < other.low + other.bits and not _nested(place, other)
            for other in by_place
        )
        if alike and not across:
            distinct[names[0]] = place
    return distinct


def _nested(a: RtlilSlice, b: RtlilSlice) -> bool:
    inside = a.low <= b.low and b.low + b.bits <= a.low + a.bits
    return inside or (b.low <= a.low and a.low + a.bits <= b.low + b.bits)


def by_fields(use: RtlilSlice, fields: dict[str, RtlilSlice]) -> Expression:
    """A part by the field that it is (of), by fields side by side, or as it is."""
    around = [
        (place.bits, name)
        for name, place in fields.items()
        if place.low <= use.low and use.low + use.bits <= place.low + place.bits
    ]
    if around:
        _, name = min(around)
        return RtlilSlice(name, use.low - fields[name].low, use.bits)
    parts: list[Expression] = []
    end = use.low + use.bits
    while end > use.low and len(parts) < MOST_FIELDS:
        fitting = [
            (place.bits, name)
            for name, place in fields.items()
            if place.low + place.bits == end and place.low >= use.low
        ]
        if not fitting:
            return use
        bits, name = max(fitting)
        parts.append(RtlilSlice(name, 0, bits))
        end -= bits
    return join(parts) if end == use.low else use
