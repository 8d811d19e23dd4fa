"""Emits reductions: the passes of each box (clause 2.9)."""

import dataclasses
import itertools
import math
from collections.abc import Callable

from tosaic.compiler.emit.layer_emission import LayerEmission
from tosaic.compiler.emit.nest_go import GoNest, emit_gos, nest_gos
from tosaic.compiler.emit.vector_go import VectorGo
from tosaic.compiler.fuse.microprogram import MicroProgram
from tosaic.compiler.fuse.reductions import continuing_pass, first_pass, index_bits, last_pass, middle_pass
from tosaic.compiler.place.placement import PARTIALS, BufferKey, Role
from tosaic.compiler.place.strides import dense_strides, operand_strides
from tosaic.compiler.tile.loops import Axis
from tosaic.compiler.tile.reduction import ReducedBox, ReductionPlan, element_sizes, partial_bytes, spans


@dataclasses.dataclass(frozen=True)
class _Stream:
    """An operand of a pass: where it begins, bytes of an element, and of a step along each axis."""

    address: int
    size: int
    strides: tuple[int, ...]

    def moved(self, axis: int, steps: int) -> "_Stream":
        return dataclasses.replace(self, address=self.address + steps * self.strides[axis])


class ReductionEmission:
    """One layer that reduces an axis."""

    def __init__(self, emission: LayerEmission, plan: ReductionPlan):
        self.emission, self.plan = emission, plan
        reduced = emission.layer.reduction
        assert reduced is not None
        self.reduced, self.config = reduced, emission.config
        self.sizes = element_sizes(emission.tensors, emission.layer)
        self._programs: dict[tuple, MicroProgram] = {}
        """Programs of the passes, by what makes them and for what."""
        self._gos: dict[tuple, list[VectorGo]] = {}
        """GOs of passes without a table: boxes of the same size take turns in the same buffers."""

    def emit(self) -> None:
        """All boxes."""
        for box in self.plan.boxes(self.reduced):
            self._box(box)

    def _box(self, box: ReducedBox) -> None:
        reduced = self.reduced
        spans_body, spans_after = spans(reduced, box, self.sizes)
        body = []
        for number, ((load, shape), span) in enumerate(zip(reduced.body, spans_body, strict=True)):
            strides = operand_strides(shape, reduced.shape, load.element.bytes)
            body.append(_Stream(self._fetch(load.tensor, number, span), load.element.bytes, tuple(strides)))
        if self.plan.partials:
            self._first(box, body)
        if box.stop < reduced.extent:
            return
        after = []
        for number, ((load, shape), span) in enumerate(zip(reduced.after, spans_after, strict=False)):
            strides = operand_strides(shape, reduced.target, load.element.bytes)
            address = self._fetch(load.tensor, len(body) + number, span)
            after.append(_Stream(address, load.element.bytes, tuple(strides)))
        first, last = spans_after[-1]
        out = self.emission.target(first, last)
        after.append(_Stream(out, self.sizes[-1], tuple(dense_strides(reduced.target, self.sizes[-1]))))
        if self.plan.partials:
            self._rest(box, after)
        else:
            self._pass(self.emission.layer.program, box, reduced.extent, 1, [*body, *after])
        self.emission.finish(out, first, last)

    def _fetch(self, tensor: str, stream: int, span: tuple[int, int]) -> int:
        tensors = self.emission.tensors
        key, offset = BufferKey(Role.OPERAND, tensors.storage[tensor], stream), tensors.offset_bytes(tensor)
        return self.emission.fetch(key, offset + span[0], offset + span[1])

    # --- passes

    def _partials(self, box: ReducedBox) -> list[_Stream]:
        """Where the partial results of each pass lie."""
        address, found = self.emission.scratch(PARTIALS), []
        element = self.reduced.computation.partial.bytes
        for count in self.plan.partials:
            strides = dense_strides((*box.counts, count, *self.reduced.inner), element)
            found.append(_Stream(address, element, tuple(strides)))
            address += partial_bytes(self.reduced, count, math.prod(box.counts))
        return found

    def _first(self, box: ReducedBox, body: list[_Stream]) -> None:
        """The elements of a box, to partial results; a box that is not the first one of its axis continues them."""
        computation, partials = self.reduced.computation, self.plan.partials[0]
        place, axis = self._partials(box)[0], self.reduced.axis
        repeats, rest = divmod(box.stop - box.start, partials)
        before = box.start // partials
        if repeats and not before:
            program = self._program(first_pass, self._bits(0))
            self._pass(program, box, repeats, partials, [*body, place])
        elif repeats:
            program = self._program(continuing_pass, self._bits(0), before * computation.argmax)
            self._pass(program, box, repeats, partials, [*body, place, place])
        if rest:
            done = (before + repeats) * computation.argmax
            program = self._program(continuing_pass, self._bits(0), done)
            left = [stream.moved(axis, repeats * partials) for stream in body]
            self._pass(program, box, 1, rest, [*left, place, place])

    def _rest(self, box: ReducedBox, after: list[_Stream]) -> None:
        """Partial results to fewer of them, and to the result."""
        places = self._partials(box)
        counts = (*self.plan.partials, 1)
        for number, (source, target) in enumerate(itertools.pairwise(places), 1):
            repeats = counts[number - 1] // counts[number]
            program = self._program(middle_pass, repeats, self._bits(number))
            self._pass(program, box, repeats, counts[number], [source, target])
        program = self._program(last_pass, counts[-2], self._bits(len(places)))
        self._pass(program, box, counts[-2], 1, [places[-1], *after])

    def _bits(self, number: int) -> int:
        """Bits of the index that ARGMAX counts after a pass: every later pass adds those of its repetitions."""
        first = self.plan.partials[0]
        later = first // (*self.plan.partials, 1)[number]
        return index_bits(self.reduced.extent, first) + later.bit_length() - 1

    def _program(self, make: Callable[..., MicroProgram], *how: int) -> MicroProgram:
        """The micro-program of a pass; ARGMAX's differ from box to box."""
        if (make, *how) not in self._programs:
            self._programs[make, *how] = make(self.reduced.computation, self.config, *how)
        return self._programs[make, *how]

    def _pass(
        self, program: MicroProgram, box: ReducedBox, repeats: int, results: int, streams: list[_Stream]
    ) -> None:
        """Reduces `repeats` times `results` elements of the axis, which follow each other, to the latter."""
        table = self.emission.take_table()
        key = (
            id(program),
            *box.counts,
            repeats,
            results,
            *((each.address, each.strides) for each in streams),
        )
        gos = None if table is not None else self._gos.get(key)
        if gos is None:
            nest = self._nest(program, box, repeats, results, streams)
            gos = list(nest_gos(dataclasses.replace(nest, table=table), self.config))
            if table is None:
                self._gos[key] = gos
        emit_gos(self.emission.emitter, gos)

    def _nest(
        self, program: MicroProgram, box: ReducedBox, repeats: int, results: int, streams: list[_Stream]
    ) -> GoNest:
        axis, last = self.reduced.axis, len(streams) - 1
        counts = (*box.counts, results, *self.reduced.inner)
        axes = [
            Axis(count, tuple(stream.strides[number] for stream in streams))
            for number, count in enumerate(counts)
        ]
        jumps = tuple(
            0 if number >= program.body_loads else results * stream.strides[axis]
            for number, stream in enumerate(streams)
        )
        assert jumps[last] == 0
        return GoNest(
            program,
            axes,
            [stream.address for stream in streams],
            tuple(stream.size for stream in streams),
            [Axis(repeats, jumps)],
        )
