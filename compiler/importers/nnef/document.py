"""The text of an NNEF model to a flat graph: parse, check, expand (chapter 6, steps 1 to 3)."""

from collections.abc import Collection, Mapping

from tosaic.compiler.importers.nnef.budget import deep_recursion
from tosaic.compiler.importers.nnef.checker import check_document
from tosaic.compiler.importers.nnef.expander import expand
from tosaic.compiler.importers.nnef.graph import FlatGraph, Shape
from tosaic.compiler.importers.nnef.parser import parse_document


def expand_document(
    text: str,
    file: str = "graph.nnef",
    *,
    whole: Collection[str] = (),
    shapes: Mapping[str, Shape] | None = None,
) -> FlatGraph:
    """The flat graph of a document; `file` is the name that errors show.

    `whole` names standard compound operations to keep instead of expanding them, `shapes` replaces the shapes of
    inputs (2.2). Raises NnefError, a ModelError, for the first rule that the document breaks.
    """
    with deep_recursion():
        document = parse_document(text, file)
        return expand(document.graph, check_document(document), whole=whole, shapes=shapes)
