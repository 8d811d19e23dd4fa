"""What a module is for: the docstring of its Python class."""

import ast
import functools
import inspect
import operator
import pathlib
import sys

_PARAMETERS = "Parameters"
"""Where the docstring of a library's class goes on with what Python passes to it."""


def comment(source: str) -> str:
    """The comment above a module. `source`: FILE:LINE in Python, of its `elaborate`."""
    path, _, line = source.rpartition(":")
    text = _docstring(path, int(line)) if path and pathlib.Path(path).is_file() else ""
    lines = []
    for text_line in text.replace(":class:", "").replace("`", "").split("\n"):
        if text_line == _PARAMETERS:
            break
        lines.append(f"// {text_line}".rstrip())
    while lines and lines[-1] == "//":
        lines.pop()
    return "".join(f"{text_line}\n" for text_line in lines)


def _docstring(path: str, line: int) -> str:
    """The docstring of the innermost class around a line, as it is when its module is loaded; a library may make it."""
    around = [(first, name) for first, last, name in _classes(path) if first <= line <= last]
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == path), None)
    if not around or module is None:
        return ""
    return inspect.cleandoc(vars(operator.attrgetter(max(around)[1])(module)).get("__doc__") or "")


@functools.cache
def _classes(path: str) -> list[tuple[int, int, str]]:
    """The classes of a file: first line, last line, path of names."""
    found = []

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found.append((child.lineno, child.end_lineno or child.lineno, ".".join((*names, child.name))))
                visit(child, (*names, child.name))

    visit(ast.parse(pathlib.Path(path).read_text(encoding="utf-8")), ())
    return found
