"""Which layer each piece of a run's timeline belongs to, and which layers were at work at the same time."""

import collections
from collections.abc import Mapping, Sequence

from tosaic.compiler.program import Program
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode
from tosaic.sim.result import Slice

_GOS = {
    Opcode.LOAD_GO,
    Opcode.LOAD_DECODE,
    Opcode.ARRAY_GO,
    Opcode.ARRAY_DEPTHWISE_GO,
    Opcode.VECTOR_GO,
    Opcode.STORE_GO,
}
_COMPUTING = ("ARRAY", "VECTOR")
_BESIDE = 0.05
"""Layers beside each other for less than this share of the shorter one's work only follow each other."""


def with_layers(program: Program, timeline: Sequence[Slice]) -> list[Slice]:
    """The pieces with the numbers of their layers: every GO of a program without branches is executed once, in order.
    As they are where that is not so, or a program tells no layers."""
    gos: dict[tuple[int, str], list[int | None]] = collections.defaultdict(list)
    image = program.image
    for core, (stream, layers) in enumerate(zip(program.streams, program.instruction_layers, strict=False)):
        for number, layer in enumerate(layers):
            start = stream.address + number * INSTRUCTION_BYTES
            opcode = decode(image[start : start + INSTRUCTION_BYTES]).opcode
            if opcode in _GOS:
                gos[core, opcode.unit.name].append(layer)
    if collections.Counter((piece.core, piece.unit) for piece in timeline) != {
        unit: len(layers) for unit, layers in gos.items()
    }:
        return list(timeline)
    turns = {unit: iter(layers) for unit, layers in gos.items()}
    return [piece._replace(layer=next(turns[piece.core, piece.unit])) for piece in timeline]


def layers_beside(timeline: Sequence[Slice]) -> Mapping[int, list[int]]:
    """Returns by layer the numbers of those of which ARRAY or VECTOR did work while the other unit did work of it."""
    working: collections.Counter[int] = collections.Counter()
    together: collections.Counter[frozenset[int]] = collections.Counter()
    under_way: list[Slice] = []
    for piece in sorted(timeline, key=lambda piece: piece.start):
        if piece.layer is None or piece.unit not in _COMPUTING:
            continue
        working[piece.layer] += piece.end - piece.start
        under_way = [other for other in under_way if other.end > piece.start]
        for other in under_way:
            if other.layer is not None and other.layer != piece.layer:
                together[frozenset((other.layer, piece.layer))] += min(piece.end, other.end) - piece.start
        under_way.append(piece)
    found: dict[int, list[int]] = collections.defaultdict(list)
    for pair, cycles in together.items():
        first, second = sorted(pair)
        if cycles > _BESIDE * min(working[first], working[second]):
            found[first].append(second)
            found[second].append(first)
    return {layer: sorted(others) for layer, others in found.items()}
