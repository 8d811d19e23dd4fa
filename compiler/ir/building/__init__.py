"""Making and rewriting graphs: what readers, importers, the quantizer and the compiler's rewrites build with.

In come names, arrays and attributes; out come operators of the table with shapes inferred and constants folded.
This folder may import the rest of the IR and nothing else of the compiler. The golden model does not import it.

- `GraphBuilder(name)` makes a graph: `input`, `constant`, `shape`, `add(op, inputs, dtype=, output=, **attributes)`,
  `output`, `finish`. It adds what it is told, and folds nothing.
- `GraphBuilder.replacing(graph, operator)` makes the operators that take the place of one: they are gathered in
  `builder.operators`, labelled like the one; new tensors are in the graph at once and are called after its result.
  `add(..., output=name)` writes a tensor that the graph has already.
- `FoldingBuilder(builder)` wraps either: `op(name, *operands, dtype=, output=, **attributes)` computes an operator of
  constants at once; `reshape`, `transpose`, `slice`, `slice_axis`, `pad`, `concat`, `tile`, `reverse` leave out what
  changes nothing. An operand is a name, or a `LateConstant` (`sizes(shape)` makes a shape_t one) that is declared only
  if the operator is added. Subclasses put policies into `constant`, `make_room` and `op`.
- `fold(op, operands, attributes, dtype)` is the one constant folder: value and type of a result, or None.
- `fold_constants(graph, evaluate)`, `drop_identities(graph)`, `remove_dead(graph)` clean a whole graph in place;
  `add_constant(graph, stem, values, dtype)`, `fresh_name(graph, stem)`, `rename_tensor(graph, old, new)` edit one;
  `rename_tensors(graph, names)` renames many in one walk.
"""

from tosaic.compiler.ir.building.cleaning import (
    Evaluate,
    drop_identities,
    evaluate_folded,
    fold_constants,
    remove_dead,
    rename_tensor,
    rename_tensors,
)
from tosaic.compiler.ir.building.folding import fold
from tosaic.compiler.ir.building.folding_builder import FoldingBuilder, LateConstant, sizes
from tosaic.compiler.ir.building.graph_builder import GraphBuilder, add_constant, fresh_name

__all__ = [
    "Evaluate",
    "FoldingBuilder",
    "GraphBuilder",
    "LateConstant",
    "add_constant",
    "drop_identities",
    "evaluate_folded",
    "fold",
    "fold_constants",
    "fresh_name",
    "remove_dead",
    "rename_tensor",
    "rename_tensors",
    "sizes",
]
