"""Writes the list of what is traced into docs/numpy.md, from the registered rules: `python bench/numpy_page.py`."""

import importlib
import pathlib
import re

import numpy as np

from tosaic.compiler.numpy_in import rules
from tosaic.compiler.numpy_in.tracer import TracedArray

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "numpy.md"
BEGIN, END = "<!-- covered -->\n", "<!-- end -->\n"
MODULES = {
    "ufuncs": "Elementwise",
    "division": "Division",
    "moves": "Shapes and moves",
    "indexing": "Look-ups",
    "reductions": "Reductions, scans, sorting",
    "products": "Products",
    "counting": "Counting",
    "composed": "Composed",
    "writing": "Writing",
}


def names_of(module: str) -> list[str]:
    """The functions of NumPy whose rules a module has."""
    importlib.import_module("tosaic.compiler.numpy_in")
    home = f"tosaic.compiler.numpy_in.{module}"
    found = {ufunc.__name__ for ufunc, rule in rules.UFUNCS.items() if rule.__module__ == home}
    for function, rule in rules.FUNCTIONS.items():
        if (
            rule.__module__ == home
            and getattr(function, "__qualname__", "").partition(".")[0] != TracedArray.__name__
        ):
            found.add(function.__name__)
    return sorted(found)


def methods() -> list[str]:
    """The methods and attributes of ndarray that a traced array has."""
    own = {name for name in vars(TracedArray) if not name.startswith("_") and hasattr(np.ndarray, name)}
    return sorted(own)


def ways_out() -> list[str]:
    """A line for each function that is refused with what to write instead."""
    said: dict[str, list[str]] = {}
    for name, text in rules.WAYS_OUT.items():
        said.setdefault(re.sub("^[:;] ", "", text), []).append(f"`{name}`")
    return [f"- {', '.join(names)}: {text}." for text, names in said.items()]


def covered() -> str:
    lines = [f"- **{title}**: {', '.join(names_of(module))}." for module, title in MODULES.items()]
    lines.append(f"- **Methods**: {', '.join(methods())}; of ufuncs {', '.join(sorted(rules.METHODS)[1:])}.")
    return "\n".join([*lines, "", "Refused, and what to write instead:", "", *ways_out(), ""])


def page() -> str:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + covered() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
