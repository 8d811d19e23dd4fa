"""Adds operators to a graph on behalf of one that they replace."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tosaic.compiler.cut.boxes import Box, NotCut, Range, shape_of
from tosaic.compiler.cut.cut_operator import CutOperator, part_of_sum
from tosaic.compiler.ir import DType, Graph, GraphBuilder, Operator
from tosaic.compiler.ir.building import FoldingBuilder, LateConstant


class Rewriting(FoldingBuilder):
    """The operators that replace `operator`. New tensors are called like its result with "'" and a number after it.
    Operators of constants are computed at once."""

    def __init__(self, graph: Graph, operator: Operator, planes: dict[str, tuple[str, str]] | None = None):
        """`planes`: the byte planes that int16 tensors of the graph already have, see `planes.py`."""
        super().__init__(GraphBuilder.replacing(graph, operator))
        self.operator = operator
        self.planes = {} if planes is None else planes

    @property
    def operators(self) -> list[Operator]:
        """The new operators, in order."""
        return self.build.operators

    def op(
        self,
        name: str,
        *operands: str | LateConstant,
        dtype: DType | None = None,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """A layout operator, which keeps the type of what it moves; that may be one that TOSA does not move."""
        moved = operands[0]
        kept = self.dtype(moved) if isinstance(moved, str) else moved.dtype
        return super().op(name, *operands, dtype=dtype or kept, output=output, **attributes)

    def zeros(self, count: int, dtype: DType) -> str:
        return self.constant(np.zeros(count, np.int64), dtype)

    def sizes(self, values: Sequence[int]) -> str:
        """A shape_t constant."""
        return self.build.shape(list(values))

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        shape: Sequence[int],
        dtype: DType,
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """An operator as it is that writes a new tensor, or `output`; the tensor's name. `shape` is what the rewrite
        expects of the result."""
        name = self.build.add(op, list(inputs), dtype=dtype, output=output, **attributes)
        assert self.shape(name) == tuple(shape), f"{op} makes {self.graph.tensors[name]}, not {list(shape)}"
        return name

    def reshape(self, tensor: str, shape: Sequence[int], output: str | None = None) -> str:
        if output is None:
            return super().reshape(tensor, shape)
        return self.add("RESHAPE", [tensor, self.sizes(shape)], shape, self.dtype(tensor), output)

    def transpose(self, tensor: str, order: Sequence[int], output: str | None = None) -> str:
        if output is None:
            return super().transpose(tensor, order)
        shape = [self.shape(tensor)[axis] for axis in order]
        return self.add("TRANSPOSE", [tensor], shape, self.dtype(tensor), output, perms=list(order))

    def box(self, tensor: str, box: Box) -> str:
        """A box of a tensor, or the tensor itself if that is all of it."""
        return self.slice(tensor, [first for first, _ in box], shape_of(box))

    def part_of_sum(self, parts: Mapping[str, Range]) -> CutOperator:
        """The replaced operator for parts of the loops that its elements are summed over; all of them have parts."""
        cut = part_of_sum(self.graph, self.operator, parts)
        assert not isinstance(cut, NotCut), cut.reason
        return cut

    def declare(self, shape: tuple[int, ...], dtype: DType) -> str:
        """A new tensor that an operator of another graph will write; its name."""
        return self.build.declare(shape, dtype)
