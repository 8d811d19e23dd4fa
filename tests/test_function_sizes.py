"""Functions are short and take few arguments; what belongs together is one value."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("bench", "boards", "compiler", "driver", "examples", "hw", "nnr", "sim", "tosaic")
MOST_PARAMETERS, MOST_LINES = 7, 100
COMMANDS = "tosaic/cli/"
"""Each parameter there is an option of a command."""
ENTRY_POINTS = {
    "compiler/build.py": "compile_graph",
    "driver/evaluate/evaluation.py": "evaluate",
    "driver/quantize/quantization.py": "quantize_graph",
    "driver/session.py": "Session.__init__",
    "nnr/payload.py": "decode_tensor",
}
"""What users call, by file: their options, which only a name gives, do not count."""


def functions(
    tree: ast.AST, around: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions, with the names of the classes around them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield around + node.name, node
            yield from functions(node)
        else:
            yield from functions(node, f"{around}{node.name}." if isinstance(node, ast.ClassDef) else around)


def parameters(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """How many may be given by their place, without `self`, and how many by name alone."""
    given = function.args
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)
    own = "." in name and not static
    return len(given.posonlyargs) + len(given.args) - own, len(given.kwonlyargs)


def faults(file: str, text: str) -> list[str]:
    found = []
    for name, function in functions(ast.parse(text)):
        placed, named = parameters(name, function)
        counted = placed if file.startswith(COMMANDS) or ENTRY_POINTS.get(file) == name else placed + named
        if counted > MOST_PARAMETERS:
            found.append(f"{file}: {name} has {counted} parameters")
        assert function.end_lineno is not None
        if (lines := function.end_lineno - function.lineno + 1) > MOST_LINES:
            found.append(f"{file}: {name} has {lines} lines")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short_and_take_few_arguments(folder):
    # The links in tosaic/ lead to folders that are read by their own names.
    files = [path for path in sorted((ROOT / folder).rglob("*.py")) if path.resolve() == path]
    assert files
    assert [each for path in files for each in faults(str(path.relative_to(ROOT)), path.read_text())] == []


def test_the_entry_points_are_there():
    for file, name in ENTRY_POINTS.items():
        assert name in dict(functions(ast.parse((ROOT / file).read_text())))


def test_what_is_counted():
    names = ", ".join("abcdefg")
    assert faults("hw/x.py", f"def f({names}): pass\nclass C:\n  def f(self, {names}): pass") == []
    assert faults("hw/x.py", f"def f({names}, h): pass") == ["hw/x.py: f has 8 parameters"]
    assert faults("hw/x.py", f"def f({names}, *, h): pass") == ["hw/x.py: f has 8 parameters"]
    assert faults("tosaic/cli/x.py", f"def f({names}, *, h): pass") == []
    assert faults("tosaic/cli/x.py", f"def f({names}, h): pass") == ["tosaic/cli/x.py: f has 8 parameters"]
    inner = f"class C:\n  @staticmethod\n  def f({names}, h):\n    def g({names}, i): pass"
    assert faults("hw/x.py", inner) == ["hw/x.py: C.f has 8 parameters", "hw/x.py: g has 8 parameters"]
    assert faults("hw/x.py", "def f():\n" + "  pass\n" * 99) == []
    assert faults("hw/x.py", "def f():\n" + "  pass\n" * 100) == ["hw/x.py: f has 101 lines"]
