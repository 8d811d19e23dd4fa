"""Imports flow one way: who may import whom, and nothing comes back."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ALLOWED = {
    "hw": {"hw"},
    "compiler": {
        "compiler",
        "errors",
        "install",
        "plugins",
        "hw.isa",
        "hw.config",
        "hw.constants",
        "hw.nnr_streams",
        "hw.cabac_timing",
        "hw.packed_weights",
        "hw.row_crc",
        "hw.slots",
        "nnr",
    },
    "sim": {"sim", "compiler.ir", "errors", "install", "hw", "nnr"},
    "driver": {"driver", "sim", "compiler", "errors", "install", "plugins", "hw"},
    "boards": {"boards", "hw", "plugins"},
    "nnr": {"nnr", "hw.nnr_tables", "errors", "install"},
}
TERMS = {"sim.terms", "sim.emulator.alu", "sim.emulator.streams", "compiler.ir", "hw.isa"}
"""The second reader of TOSA, and the emulator's domain of terms."""
GOLDEN = {"sim.golden", "compiler.ir", "errors"}
PARTS = {
    "compiler/cost": {
        *("compiler.cost", "compiler.machine_numbers", "compiler.memory_speed"),
        *("hw.config", "hw.isa", "hw.packed_weights", "hw.slots", "hw.constants"),
    },
    "compiler/ir": {"compiler.ir", "errors"},
    "compiler/cut": {"compiler.cut", "compiler.ir"},
    "compiler/importers": {"compiler.importers", "compiler.ir", "errors", "install", "plugins", "nnr"},
    "compiler/numpy_in": {"compiler.numpy_in", "compiler.ir", "errors"},
    "compiler/quantizer": {"compiler.quantizer", "compiler.ir", "errors"},
}
"""What parts of the compiler may import, more narrowly than the compiler as a whole."""

Module = tuple[str, ...]
"""A module's dotted name without `tosaic`; a package's is that of its `__init__.py`, () is `tosaic` itself."""


def sources(folder: str) -> list[pathlib.Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not is_linked(path)]


def is_linked(path: pathlib.Path) -> bool:
    """Whether a path leads through one of the links in tosaic/ to a folder that is read by its own name."""
    parts = path.relative_to(ROOT).parts
    return parts[0] == "tosaic" and (ROOT / "tosaic" / parts[1]).is_symlink()


def module_of(path: pathlib.Path) -> Module:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "tosaic" else parts
    return parts[:-1] if parts[-1] == "__init__" else parts


MODULES = {module_of(path): path for folder in (*ALLOWED, "tosaic") for path in sources(folder)}


def imported_modules(path: pathlib.Path) -> set[Module]:
    """Modules of ours that a file imports anywhere: at its top, in functions, and for types only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {tuple(name[1:]) for name in names if name[0] == "tosaic"}
        elif isinstance(node, ast.ImportFrom):
            name = node.module.split(".") if node.module else []
            if node.level:
                package = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
                base = (*package[: len(package) - node.level + 1], *name)
            elif name and name[0] == "tosaic":
                base = tuple(name[1:])
            else:
                continue
            # `from package import name` imports a submodule if there is one, else something of the package's front.
            found |= {(*base, a.name) if (*base, a.name) in MODULES else base for a in node.names}
    return found - {module_of(path)}


def imports(path: pathlib.Path) -> set[str]:
    """Modules of ours that a file imports, without the leading `tosaic.`."""
    return {".".join(module) for module in imported_modules(path)}


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


def test_terms_import_neither_compiler_nor_golden() -> None:
    wrong = [
        (str(path), name)
        for path in sources("sim/terms")
        for name in imports(path)
        if not within(name, TERMS) or within(name, {"compiler.ir.building"})
    ]
    assert wrong == []


def test_what_reads_the_specification_does_not_know_the_emulator() -> None:
    readers = [ROOT / "sim/terms" / name for name in ("graph.py", "operators.py", "windows.py", "algebra.py")]
    wrong = [
        (str(path), name)
        for path in readers
        for name in imports(path)
        if within(name, {"sim.emulator", "hw"})
    ]
    assert wrong == []


def test_golden_does_not_compute_as_the_compiler_folds() -> None:
    wrong = [
        (str(path), name)
        for path in sources("sim/golden")
        for name in imports(path)
        if within(name, {"compiler.ir.building"})
    ]
    assert wrong == []


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_compiler_imports_only_what_it_may(part: str) -> None:
    wrong = [(str(p), n) for p in sources(part) for n in imports(p) if not within(n, PARTS[part])]
    assert wrong == []


def circles(graph: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The strongly connected components of two nodes or more: nodes that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for following in graph.get(pending.pop(), set()) - seen:
                seen.add(following)
                pending.append(following)
        return seen

    reach = {name: reached(name) for name in graph}
    found = {tuple(sorted(n for n in reach[name] if name in reach.get(n, ()))) for name in graph}
    return {circle for circle in found if len(circle) > 1}


def package_circles(edges: dict[Module, set[Module]]) -> set[tuple[str, tuple[str, ...]]]:
    """Circles among the parts of each package, at every depth: a part is a module, or a folder with all it holds.

    A package's own `__init__.py` is the part "__init__": what it imports must not import it.
    """
    found = set()
    packages = {module[:depth] for module in edges for depth in range(len(module))}
    for package in packages:
        depth, parts = len(package), {}
        for module, targets in edges.items():
            if module[:depth] != package:
                continue
            part = module[depth] if len(module) > depth else "__init__"
            inside = {target for target in targets if target[:depth] == package and target in edges}
            names = {target[depth] if len(target) > depth else "__init__" for target in inside}
            parts.setdefault(part, set()).update(names - {part})
        found |= {(".".join(("tosaic", *package)), circle) for circle in circles(parts)}
    return found


def test_no_circles_between_modules_and_packages() -> None:
    """At every depth the parts of a package can be put in an order in which each imports earlier ones only."""
    assert package_circles({module: imported_modules(path) for module, path in MODULES.items()}) == set()


def test_the_search_for_circles_sees_packages() -> None:
    edges: dict[Module, set[Module]] = {
        (): {("a",)},
        ("a",): {("a", "x")},
        ("a", "x"): {("b", "y")},
        ("a", "z"): set(),
        ("b",): set(),
        ("b", "y"): {("a", "z")},
    }
    assert package_circles(edges) == {("tosaic", ("a", "b"))}, "no module imports itself, but the packages do"
    edges["b", "y"] = {("b",)}
    assert package_circles(edges) == set()
    edges["b",] = {("b", "y")}
    assert package_circles(edges) == {("tosaic.b", ("__init__", "y"))}, (
        "a front imported by its own submodule"
    )


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


def test_a_module_outside_of_the_package_is_found_by_its_name_alone() -> None:
    """Folders of tests and benchmarks are on the path together: of two modules of one name, one hides the other."""
    paths = [path for folder in ("tests", "bench") for path in sources(folder)]
    names = [path.stem for path in paths if path.stem not in ("__init__", "__main__", "conftest")]
    assert sorted(names) == sorted(set(names))


def test_no_file_is_too_long() -> None:
    long = [
        str(path)
        for f in (*ALLOWED, "tosaic")
        for path in sources(f)
        if len(path.read_text().splitlines()) > 600
    ]
    assert long == []
