"""An operator as loops: over its result, and over what each element of that is put together from."""

import abc
import dataclasses
from collections.abc import Mapping, Sequence

from tosaic.compiler.cut.boxes import Box, NotCut, Range, is_empty, whole
from tosaic.compiler.cut.reads import Reads


@dataclasses.dataclass(frozen=True)
class AxisCut:
    """What cuts along an axis of a result must keep to."""

    unit: int = 1
    """Boxes begin and end at its multiples, or at the end of the axis."""
    halo: int = 0
    """The most positions of an operand's axis that two neighbouring boxes both read."""
    whole: str = ""
    """Why the axis is not cut; empty where it may be."""


@dataclasses.dataclass(frozen=True)
class Inner:
    """A loop beside those over the result, over the elements that are put together in each element of the result."""

    extent: int
    join: str = ""
    """The operator that puts the results of parts of the loop together, in any order."""
    whole: str = ""
    """Why the loop has no parts; empty where it has."""


class Cuttable(abc.ABC):
    """Who knows which boxes of its operands an operator reads for a box of its result."""

    shape: tuple[int, ...]
    """The result's."""

    @abc.abstractmethod
    def needs(self, box: Box, parts: Mapping[str, Range] | None = None) -> dict[int, Box]:
        """The box of each operand that a box of the result reads, by the operands' numbers; a box without elements
        where an operand is not read. Operands that are left out are read whole by each element: tables, zero points,
        shapes. `parts` are ranges of inner loops."""

    @abc.abstractmethod
    def makes(self, operand: int, given: Box) -> Box | NotCut:
        """The inverse of `needs`: the largest box of the result that reads no other elements of an operand than those
        `given`, with all of the other operands."""

    @abc.abstractmethod
    def axis(self, axis: int) -> AxisCut:
        """What cuts along an axis of the result must keep to."""

    def aligned(self, axis: int, cut: Range) -> Range:
        """What of a range an axis may be cut to; perhaps an empty range."""
        (first, last), extent, rule = cut, self.shape[axis], self.axis(axis)
        if rule.whole:
            return cut if cut == (0, extent) else (0, 0)
        return -(-first // rule.unit) * rule.unit, last if last == extent else last // rule.unit * rule.unit

    def refusal(self, box: Box) -> NotCut | None:
        """What stands against a box of the result; None if nothing does."""
        for axis, cut in enumerate(box):
            if cut != (0, self.shape[axis]) and self.aligned(axis, cut) != cut:
                rule = self.axis(axis)
                ends = f"axis {axis} is cut at multiples of {rule.unit}, not to [{cut[0]}, {cut[1]})"
                return NotCut(rule.whole or ends)
        return None

    def makes_of(self, found: Sequence[Range]) -> Box | NotCut:
        """The box of these ranges, as far as they are aligned."""
        box = tuple(self.aligned(axis, cut) for axis, cut in enumerate(found))
        return NotCut("the box is too small for any element of the result") if is_empty(box) else box


@dataclasses.dataclass(frozen=True)
class Nest(Cuttable):
    """Loops over the axes of a result, then the `inner` ones, and where each operand is read."""

    shape: tuple[int, ...]
    """The result's."""
    operands: Mapping[int, tuple[Reads, ...]]
    inner: Mapping[str, Inner] = dataclasses.field(default_factory=dict)
    units: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """Axes of the result that are cut at multiples only."""
    uncut: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Axes of the result that stay whole, and why."""

    def needs(self, box: Box, parts: Mapping[str, Range] | None = None) -> dict[int, Box]:
        loops = self._loops(box, parts or {})
        return {number: tuple(axis.needs(loops) for axis in axes) for number, axes in self.operands.items()}

    def makes(self, operand: int, given: Box) -> Box | NotCut:
        found, loops = list(whole(self.shape)), self._loops(whole(self.shape), {})
        for axis, (reads, inside) in enumerate(zip(self.operands[operand], given, strict=True)):
            outer = [loop for loop, _ in reads.terms if loop < len(self.shape)]
            if outer:
                first, last = reads.makes(outer[0], loops, inside)
                found[outer[0]] = max(found[outer[0]][0], first), min(found[outer[0]][1], last)
            elif (needed := reads.needs(loops))[0] < inside[0] or needed[1] > inside[1]:
                return NotCut(f"each element of the result reads all of axis {axis} of the operand")
        return self.makes_of(found)

    def axis(self, axis: int) -> AxisCut:
        if axis in self.uncut:
            return AxisCut(whole=self.uncut[axis])
        unit, loops = self.units.get(axis, 1), self._loops(whole(self.shape), {})
        halos = (
            reads.halo(axis, loops, unit)
            for axes in self.operands.values()
            for reads in axes
            if any(loop == axis for loop, _ in reads.terms)
        )
        return AxisCut(unit, max(halos, default=0))

    def follows(self, operand: int, axis: int) -> bool:
        """Whether an axis of an operand is that axis of the result, position by position, and no other axis of the
        operand depends on it; not where the result has no such axis."""
        if axis >= len(self.shape):
            return False
        axes = self.operands[operand]
        readers = [place for place, reads in enumerate(axes) if any(loop == axis for loop, _ in reads.terms)]
        return readers == [axis] and axes[axis] == Reads(self.shape[axis], ((axis, 1),))

    def ignores(self, operand: int, axis: int) -> bool:
        """Whether an operand is read alike by all along an axis of the result."""
        return all(loop != axis for reads in self.operands.get(operand, ()) for loop, _ in reads.terms)

    def _loops(self, box: Box, parts: Mapping[str, Range]) -> list[Range]:
        return [*box, *(parts.get(name, (0, loop.extent)) for name, loop in self.inner.items())]
