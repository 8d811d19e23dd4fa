"""A class name stands once in the product: whoever searches for it finds one class."""

import ast
import collections
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("boards", "compiler", "driver", "hw", "integrations", "nnr", "sim", "tosaic")
MOST = 8
TWICE = {
    "Error": "codes of the register ERROR, from which C has the names of its values; and the base of all errors",
}
"""Names of two classes, and why."""


def classes() -> dict[str, list[str]]:
    """The files of each class, links left out."""
    found = collections.defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.resolve() != path or "tests" in path.relative_to(ROOT).parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_class_names_that_stand_twice():
    twice = {name: files for name, files in classes().items() if len(files) > 1}
    assert twice.keys() == TWICE.keys(), {name: twice.get(name) for name in twice.keys() ^ TWICE.keys()}
    assert all(len(files) == 2 for files in twice.values())
    assert len(twice) <= MOST
