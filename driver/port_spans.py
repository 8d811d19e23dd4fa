"""Tensors that lie beside each other in a machine's memory, in one access."""

from collections.abc import Iterable, Sequence

from tosaic.compiler.program import Port, Program

JOIN_BYTES = 22 + 100
"""The widest gap between two tensors that is sent along: the bytes of a request of its own and of its answer, and
what a line of 1 Mbaud brings in the millisecond of USB that they wait at best."""


def spans_to_read(ports: Iterable[Port]) -> list[tuple[slice, list[slice]]]:
    """What to read of a memory window to have these tensors, and which parts of it they are."""
    return _joined(ports, [])


def spans_to_write(program: Program, ports: Iterable[Port]) -> list[slice]:
    """What to write to a machine that has the program's image, out of a window that holds these tensors, the image and
    the states. Nobody needs the bytes of a gap, where anything may be, but weights that the boot part has decoded."""
    decoded = [block.slice for block in program.boot.blocks] if program.boot is not None else []
    return [place for place, _ in _joined(ports, decoded)]


def _joined(ports: Iterable[Port], barriers: Sequence[slice]) -> list[tuple[slice, list[slice]]]:
    """Joins spans by address; a gap in which one of the `barriers` lies is not joined."""
    spans: list[tuple[slice, list[slice]]] = []
    for port in sorted(ports, key=lambda port: port.address):
        own = slice(port.address, port.address + port.bytes)
        if spans:
            place, parts = spans[-1]
            is_free = not any(each.start < own.start and each.stop > place.stop for each in barriers)
            if own.start <= place.stop + JOIN_BYTES and is_free:
                spans[-1] = slice(place.start, max(place.stop, own.stop)), [*parts, own]
                continue
        spans.append((own, [own]))
    return spans
