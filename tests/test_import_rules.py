"""Imports flow one way: who may import whom, and nothing comes back."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "hw": {"hw"},
    "compiler": {"compiler", "errors", "hw.isa", "hw.config", "hw.nnr_streams", "nnr"},
    "sim": {"sim", "compiler.ir", "errors", "hw", "nnr"},
    "driver": {"driver", "sim", "compiler", "errors", "hw"},
    "boards": {"boards", "hw"},
    "nnr": {
        "nnr",
        "hw.nnr_tables",
        "errors",
        "compiler.importers.nnef.container",
        "compiler.importers.nnef.tensor_file",
    },
}
GOLDEN = {"sim.golden", "compiler.ir", "errors"}


def imports(path: pathlib.Path) -> set[str]:
    """Modules of ours that a file imports, without the leading `tosaic.`."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            found.add(".".join(["tosaic", *base, *([node.module] if node.module else [])]))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "tosaic"
                else {node.module}
            )
    return {name.removeprefix("tosaic.") for name in found if name.startswith("tosaic.")}


def sources(folder: str) -> list[pathlib.Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def within(name: str, allowed: set[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)


@pytest.mark.parametrize("folder", ALLOWED)
def test_folder_imports_only_what_it_may(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(folder)
        for name in sorted(imports(path))
        if not within(name, ALLOWED[folder])
    ]
    assert wrong == []


def test_golden_imports_only_the_ir() -> None:
    wrong = [
        (str(path), name)
        for path in sources("sim/golden")
        for name in imports(path)
        if not within(name, GOLDEN)
    ]
    assert wrong == []


def test_the_ir_imports_nothing_of_the_compiler() -> None:
    wrong = [
        (str(p), name)
        for p in sources("compiler/ir")
        for name in imports(p)
        if not within(name, {"compiler.ir", "errors"})
    ]
    assert wrong == []


def test_no_circles_between_modules() -> None:
    graph: dict[str, set[str]] = {}
    for folder in (*ALLOWED, "tosaic"):
        for path in sources(folder):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            graph[name] = {i for i in imports(path) if i != name}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"circle: {' -> '.join([*trail[trail.index(name) :], name])}"
        if name in done or name not in graph:
            return
        for following in sorted(graph[name]):
            # Importing a submodule from its own package's front page is no circle of modules.
            if not name.startswith(following + ".") and not following.startswith(name + "."):
                visit(following, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_the_tree_is_the_package() -> None:
    """Each folder of the repository that is installed stands in tosaic/ as a relative link."""
    for folder in (*ALLOWED, "examples"):
        link = ROOT / "tosaic" / folder
        assert link.is_symlink() and link.readlink() == pathlib.Path("..", folder)


def test_every_folder_with_modules_is_a_package() -> None:
    """setuptools finds folders with an `__init__.py` and no others."""
    missing = {
        str(path.parent.relative_to(ROOT))
        for folder in ALLOWED
        for path in sources(folder)
        if not (path.parent / "__init__.py").exists()
    }
    assert missing == set()


def test_no_file_is_too_long() -> None:
    long = [
        str(path)
        for f in (*ALLOWED, "tosaic")
        for path in sources(f)
        if len(path.read_text().splitlines()) > 600
    ]
    assert long == []
