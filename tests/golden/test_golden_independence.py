"""The golden model shares no code with what it judges: it imports NumPy and the IR, nothing else of ours."""

import ast
from pathlib import Path

import pytest

from tosaic.sim import golden

FILES = sorted(Path(golden.__file__).parent.glob("*.py"))
STANDARD = {"collections", "dataclasses", "inspect", "itertools", "typing"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that this test sees them"
            modules = [node.module]
        else:
            continue
        for module in modules:
            ours = module == "tosaic.compiler.ir" or module.startswith("tosaic.sim.golden")
            assert ours or module == "numpy" or module.split(".")[0] in STANDARD, module
