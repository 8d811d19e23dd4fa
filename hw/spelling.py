"""What somebody meant who misspelt a name."""

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str]) -> str:
    """`did you mean NAME? `, to stand before a list of what there is; nothing where no name is near."""
    near = difflib.get_close_matches(name.lower(), list(known), 1)
    return f"did you mean {near[0]}? " if near else ""
