"""Emits copies that turn a tensor (see `tile/turn.py`)."""

import dataclasses
import itertools
from collections.abc import Iterator

from tosaic.compiler.emit.emitter import Emitter
from tosaic.compiler.emit.nest_go import GoNest, emit_nest
from tosaic.compiler.fuse.expression import Load, Node, Value
from tosaic.compiler.fuse.microprogram import MicroProgram, assemble
from tosaic.compiler.place.strides import dense_strides
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.turn import Scratch, Turn, joined_bytes
from tosaic.hw.config import Config
from tosaic.hw.isa import Element, Op

_UNSIGNED = {element.bytes: element for element in (Element.UINT8, Element.UINT16)}


def emit_turn(emitter: Emitter, turn: Turn, scratch: Scratch, source: int, target: int) -> None:
    """The GOs of a copy from one activation-memory address to another."""
    for start, piece in _pieces(turn, scratch.size_bytes):
        _Passes(emitter, piece, scratch).emit(source + start[0], target + start[1])


Offsets = tuple[int, int]
"""Bytes in the source and in the result."""


def _pieces(turn: Turn, limit_bytes: int) -> Iterator[tuple[Offsets, Turn]]:
    """Parts of a copy, each of whole chunks, that fit a buffer."""
    lines, size = turn.lines, turn.chunk_lines
    whole, rest = divmod(lines.count, size)
    starts = [(0, whole)] if whole else []
    # The last lines make a chunk with some before them, which are copied once more.
    starts += [(lines.count - size, 1)] if rest else []
    line_limit = limit_bytes // turn.place_bytes
    for first, groups in starts:
        group = Axis(groups, tuple(stride * size for stride in lines.strides))
        loops = [*turn.outer, group]
        for begin, line in _parts(turn.line, line_limit):
            for offsets, inner in _boxes(loops, line_limit // line.count):
                moved = [
                    offset + first * step + shift
                    for offset, step, shift in zip(offsets, lines.strides, begin, strict=True)
                ]
                piece = dataclasses.replace(turn, outer=tuple(inner), line=line)
                yield (moved[0], moved[1]), piece


def _parts(axis: Axis, most: int) -> Iterator[tuple[Offsets, Axis]]:
    """Stretches of an axis of at most `most` turns."""
    for start in range(0, axis.count, most):
        yield _after(axis, start), Axis(min(most, axis.count - start), axis.strides)


def _after(axis: Axis, turns: int) -> Offsets:
    return axis.strides[0] * turns, axis.strides[1] * turns


def _boxes(loops: list[Axis], most: int) -> Iterator[tuple[Offsets, list[Axis]]]:
    """Nests of at most `most` turns that make up a nest."""
    if not loops:
        yield (0, 0), []
        return
    inner = 1
    for depth in range(len(loops) - 1, -1, -1):
        if inner * loops[depth].count > most:
            break
        inner *= loops[depth].count
    else:
        yield (0, 0), loops
        return
    for turns in itertools.product(*(range(axis.count) for axis in loops[:depth])):
        places = [_after(axis, turn) for axis, turn in zip(loops, turns, strict=False)]
        for begin, part in _parts(loops[depth], most // inner):
            source, target = (sum(offsets) for offsets in zip(begin, *places, strict=True))
            yield (source, target), [part, *loops[depth + 1 :]]


class _Passes:
    """The passes of a copy that fits the buffers."""

    def __init__(self, emitter: Emitter, turn: Turn, scratch: Scratch):
        self.emitter, self.turn, self.scratch = emitter, turn, scratch

    def emit(self, source: int, target: int) -> None:
        turn, size = self.turn, self.turn.element_bytes
        at, outer = source, [axis.strides[0] for axis in turn.outer]
        step, length, left = turn.lines.strides[0], turn.line.count, turn.chunk_lines
        for number, radix in enumerate(turn.radices):
            left //= radix
            joined = joined_bytes(size, radix)
            result = length * joined
            to = self.scratch.addresses[number % 2]
            steps = self._dense(left * result)
            if turn.in_place and left == 1:
                to, steps = target, [axis.strides[1] for axis in turn.outer]
            axes = [
                *self._outer(outer, steps),
                Axis(left, (step, result)),
                Axis(length, (size, joined)),
            ]
            # The first element that is read becomes the highest.
            lines = Axis(radix, (-left * step, 0))
            program = _joining(size, radix, self.emitter.config)
            first = at + (radix - 1) * left * step
            emit_nest(self.emitter, GoNest(program, axes, [first, to], (size, joined), [lines]))
            at, outer, step, length = to, steps, result, length * radix
        if not turn.in_place:
            self._place(at, target)

    def _dense(self, inner_bytes: int) -> list[int]:
        """Strides of the outer loops where they lie densely in a buffer."""
        return dense_strides(tuple(axis.count for axis in self.turn.outer), inner_bytes)

    def _outer(self, source: list[int], target: list[int]) -> list[Axis]:
        return [
            Axis(axis.count, strides)
            for axis, strides in zip(self.turn.outer, zip(source, target, strict=True), strict=True)
        ]

    def _place(self, at: int, target: int) -> None:
        """Copies the chunks to where they belong."""
        turn = self.turn
        steps = self._dense(turn.line.count * turn.place_bytes)
        axes = [
            *self._outer(steps, [axis.strides[1] for axis in turn.outer]),
            Axis(turn.line.count, (turn.place_bytes, turn.line.strides[1])),
            Axis(turn.chunk_bytes, (1, 1)),
        ]
        program = assemble(Load("", Element.INT8), self.emitter.config)
        emit_nest(self.emitter, GoNest(program, axes, [at, target], (1, 1)))


def _joining(element_bytes: int, radix: int, config: Config) -> MicroProgram:
    """Puts `radix` elements together, the highest first."""
    load = Load("", _UNSIGNED[element_bytes], shared=True)
    value: Value = load
    for _ in range(radix - 1):
        value = Node(Op.RESCALE, value, load, multiplier=1 << 8 * element_bytes)
    return dataclasses.replace(assemble(value, config), body_loads=1)
