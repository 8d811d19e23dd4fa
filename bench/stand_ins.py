"""Counts what ties tests to the inside of the product: objects in place of its classes, and uses of its private names.

    python bench/stand_ins.py      # by file; exit 1 above the limits

A stand-in is an object with any attributes (a SimpleNamespace, a mock), or one made without its class's constructor
(`__new__`). A private name is one with a leading underscore, read from anything but `self`, `cls` or a module of the
tests.
"""

import ast
import pathlib
import sys
from collections import Counter

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_STAND_INS, MOST_PRIVATE = 20, 60
STAND_INS = {"SimpleNamespace", "Mock", "MagicMock", "namedtuple", "make_dataclass"}
"""What makes an object with any attributes."""
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_pytest", "_exit", "_repr_html_"}
"""Names with an underscore that the documentation of Python or IPython tells people to use."""


def counts(path: pathlib.Path) -> tuple[int, int]:
    """Stand-ins and private names of a file."""
    tree = ast.parse(path.read_text())
    own, stand_ins = _own_names(tree), _called_as(tree, STAND_INS)
    made = private = 0
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in stand_ins:
                made += 1
            case ast.Call(func=ast.Attribute(attr="__new__", value=value)) if not isinstance(value, ast.Call):
                made += 1
            case ast.Attribute(value=value, attr=name) if _is_private(name) and name not in own:
                private += not (isinstance(value, ast.Name) and value.id in ("self", "cls"))
            case ast.ImportFrom(module=module, names=names) if module and module.startswith("tosaic"):
                private += sum(_is_private(each.name) for each in names)
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[*places, _]):
                private += sum(
                    isinstance(each, ast.Constant)
                    and isinstance(each.value, str)
                    and _is_private(each.value.rpartition(".")[2])
                    for each in places
                )
    return made, private


def _own_names(tree: ast.Module) -> set[str]:
    """What the file itself defines: functions, classes, and attributes of its objects."""
    own = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
    }
    return own | {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for target in ast.walk(target)
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


def _called_as(tree: ast.Module, names: set[str]) -> set[str]:
    """What imports of the file call these."""
    return names | {
        each.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if each.name in names and each.asname
    }


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC and name != "_"


def main() -> int:
    found = {str(path.relative_to(ROOT)): counts(path) for path in sorted((ROOT / "tests").rglob("*.py"))}
    for path, (stand_ins, private) in found.items():
        if stand_ins or private:
            print(f"{path}: {stand_ins} stand-ins, {private} private names")
    total = Counter[str]()
    for stand_ins, private in found.values():
        total.update({"stand-ins": stand_ins, "private": private})
    print(
        f"{total['stand-ins']} stand-ins (at most {MOST_STAND_INS}), {total['private']} uses of private names "
        f"(at most {MOST_PRIVATE})"
    )
    return int(total["stand-ins"] > MOST_STAND_INS or total["private"] > MOST_PRIVATE)


if __name__ == "__main__":
    sys.exit(main())
