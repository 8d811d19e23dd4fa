"""The axis that a layer reduces, and how the operands of the layer lie around it."""

import dataclasses
import math
from collections.abc import Callable

from tosaic.compiler.fuse.expression import Load, Value
from tosaic.compiler.fuse.microprogram import MicroProgram, TooComplex
from tosaic.compiler.fuse.reductions import Reduction, continuing_pass
from tosaic.compiler.ir import Graph, Operator
from tosaic.compiler.machine import KIND, Kind
from tosaic.hw.config import Config

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ReducedAxis:
    """A reduction over axis `axis` of `shape`. Neighbouring axes that one layer reduces count as one."""

    computation: Reduction
    shape: Shape
    axis: int
    body: tuple[tuple[Load, Shape], ...]
    """The operands of the elements, and their shapes, perhaps broadcast to `shape`."""
    after: tuple[tuple[Load, Shape], ...]
    """Those of what is computed from the reduced elements, perhaps broadcast to `target`."""

    @property
    def target(self) -> Shape:
        """The shape of the result."""
        return (*self.outer, 1, *self.inner)

    @property
    def outer(self) -> Shape:
        return self.shape[: self.axis]

    @property
    def inner(self) -> Shape:
        return self.shape[self.axis + 1 :]

    @property
    def extent(self) -> int:
        return self.shape[self.axis]


def reduced_axis(
    graph: Graph, config: Config, operators: list[Operator], value: Value, program: MicroProgram
) -> ReducedAxis | None:
    """What the reductions among a layer's operators reduce, None where there are none. TooComplex where that is not one
    axis, or where partial results cannot be continued."""
    reductions = [operator for operator in operators if KIND[operator.op] in (Kind.REDUCTION, Kind.ARGMAX)]
    if not reductions:
        return None
    base = reductions[0]
    source = graph.tensors[base.inputs[0]]
    computation = Reduction(value, source.dtype, base.op == "ARGMAX")
    over = sorted({operator.attributes["axis"] for operator in reductions})
    first, last = over[0], over[-1] + 1
    if over != list(range(first, last)):
        raise TooComplex("a reduction over axes that are apart")
    continuing_pass(computation, config, 0, 1)

    def joined(shape: Shape) -> Shape:
        """A shape with the reduced axes as one."""
        reduced = shape[first:last]
        if reduced != source.shape[first:last] and set(reduced) != {1}:
            raise TooComplex("an operand that is broadcast along some of the reduced axes")
        return (*shape[:first], math.prod(reduced), *shape[last:])

    def result(shape: Shape) -> Shape:
        # ARGMAX's result has no such axis; with one of length 1 it is like any reduction's.
        return (*shape[:first], 1, *shape[first if computation.argmax else last :])

    def operands(loads: list[Load], change: Callable[[Shape], Shape]) -> tuple[tuple[Load, Shape], ...]:
        return tuple((load, change(graph.tensors[load.tensor].shape)) for load in loads)

    count = program.body_loads
    return ReducedAxis(
        computation,
        joined(source.shape),
        first,
        operands(program.loads[:count], joined),
        operands(program.loads[count:], result),
    )
