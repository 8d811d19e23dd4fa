"""Imports flow one way: who may import whom, and nothing comes back."""

import ast
import pathlib
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "hw": {"hw"},
    "compiler": {"compiler", "hw.isa", "hw.config", "hw.nnr_streams", "nnr"},
    "sim": {"sim", "compiler.ir", "hw", "nnr"},
    "driver": {"driver", "sim", "compiler", "hw"},
    "boards": {"boards", "hw"},
    "nnr": {
        "nnr",
        "hw.nnr_tables",
        "compiler.ir.errors",
        "compiler.importers.nnef.container",
        "compiler.importers.nnef.tensor_file",
    },
}
GOLDEN = {"sim.golden", "compiler.ir"}


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
        if not within(name, {"compiler.ir"})
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


def test_every_package_is_listed() -> None:
    """setuptools installs what pyproject lists and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed, mapping = set(project["packages"]), project["package-dir"]
    found = set()
    for name, folder in mapping.items():
        for path in (ROOT / folder).rglob("__init__.py"):
            relative = path.parent.relative_to(ROOT / folder).parts
            found.add(".".join([name, *relative]))
    assert found == listed


def test_no_file_is_too_long() -> None:
    long = [
        str(path)
        for f in (*ALLOWED, "tosaic")
        for path in sources(f)
        if len(path.read_text().splitlines()) > 600
    ]
    assert long == []
