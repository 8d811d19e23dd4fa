"""Functions that predict cycles stand in `compiler/cost/`; the stages say what they ask for."""

import ast
import pathlib
from collections.abc import Iterator

COMPILER = pathlib.Path(__file__).parents[2] / "compiler"
STAGES = ("legalize", "fuse", "place", "tile", "cores", "emit", "schedule")
ALONE = ("machine.py", "memory_speed.py", "search.py", "build.py", "memory_history.py")
ELSEWHERE = {"memory_speed.py": {"burst_cycles"}}
"""Functions elsewhere that compute cycles, by file: what a memory gives is no prediction."""


def files() -> Iterator[pathlib.Path]:
    for stage in STAGES:
        yield from sorted((COMPILER / stage).rglob("*.py"))
    yield from (COMPILER / name for name in ALONE)


def imported(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def computing(tree: ast.AST) -> Iterator[str]:
    """Functions with `cycles` in their names that compute something themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "cycles" in node.name:
            body = [each for statement in node.body for each in ast.walk(statement)]
            if any(isinstance(each, ast.BinOp | ast.AugAssign) for each in body):
                yield node.name


def test_functions_that_predict_cycles_stand_in_the_cost_room() -> None:
    found = {
        path.relative_to(COMPILER).as_posix(): names
        for path in files()
        if (names := set(computing(ast.parse(path.read_text()))))
    }
    assert found == ELSEWHERE


def test_only_the_cost_room_knows_how_long_things_take() -> None:
    wrong = [
        f"{path.relative_to(COMPILER)} imports {name}"
        for path in files()
        for module, name in imported(path)
        if module == "tosaic.compiler.machine_numbers" and name.endswith("_CYCLES")
    ]
    assert wrong == ["memory_speed.py imports BURST_TURN_CYCLES"]
