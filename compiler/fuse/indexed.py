"""GATHER and SCATTER as copies of rows between a table and a dense list (clause 2.11)."""

import dataclasses

import numpy as np

from tosaic.compiler.ir import Graph, Operator


@dataclasses.dataclass(frozen=True)
class IndexedMove:
    """Rows of a table [batches, table_rows, row] by `indices` [batches, count], and a dense list [batches, count, row].

    GATHER copies from the table (its values) to the list (its output). SCATTER copies from the list (its input) to the
    table, which is a copy of values_in."""

    operator: Operator
    values: str
    indices: str
    input: str | None
    """SCATTER's rows; None for GATHER."""
    batches: int
    table_rows: int
    count: int
    row_elements: int
    constant: np.ndarray | None
    """Constant indices, int64 [batches, count], or [1, count] when they are the same in every batch."""

    @property
    def scatters(self) -> bool:
        return self.input is not None

    def run_time_sources(self) -> list[str]:
        """The tensors that are read from memory."""
        names = [self.values, *([self.indices] if self.constant is None else [])]
        return names if self.input is None else [*names, self.input]


def plan_indexed(graph: Graph, operator: Operator) -> IndexedMove:
    """What a GATHER or SCATTER copies. An index outside the table is unpredictable in TOSA, here clipped."""
    values, indices, *rows = operator.inputs
    (batches, table_rows, elements), count = graph.tensors[values].shape, graph.tensors[indices].shape[1]
    constant = graph.const(indices)
    if constant is not None:
        if (constant == constant[:1]).all():
            constant = constant[:1]
        constant = np.clip(constant.astype(np.int64), 0, table_rows - 1)
    return IndexedMove(
        operator, values, indices, rows[0] if rows else None, batches, table_rows, count, elements, constant
    )
