"""The standard operations, from the NNEF text `standard.nnef` beside this file."""

import functools
import pathlib

from tosaic.compiler.importers.nnef.parser import parse_declarations
from tosaic.compiler.importers.nnef.syntax import Fragment

FILE = "standard.nnef"


@functools.cache
def standard_operations() -> dict[str, Fragment]:
    """Declarations of chapter 4 by name; primitives have no body."""
    text = pathlib.Path(__file__).with_name(FILE).read_text(encoding="ascii")
    return {fragment.name: fragment for fragment in parse_declarations(text, FILE)}


def compound_operations() -> frozenset[str]:
    """Names of the operations that are defined by others; an expansion may keep them whole."""
    return frozenset(name for name, fragment in standard_operations().items() if fragment.body is not None)
