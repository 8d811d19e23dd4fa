"""The list in docs/numpy.md is of the registered rules, and the page's example runs."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("numpy_page", ROOT / "bench" / "numpy_page.py")
assert SPEC is not None and SPEC.loader is not None
numpy_page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(numpy_page)


@pytest.mark.skipif(not hasattr(np, "cumulative_sum"), reason="the list is that of NumPy 2.1 or newer")
def test_the_list_is_of_the_rules():
    assert numpy_page.PAGE.read_text() == numpy_page.page(), "make docs"


def test_the_example_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", numpy_page.PAGE.read_text(), re.DOTALL)[1]
    (tmp_path / "edges.py").write_text(example.replace('session("sim", ', 'session("emulator", '))
    found: dict = {}
    exec(compile((tmp_path / "edges.py").read_text(), str(tmp_path / "edges.py"), "exec"), found)
    assert found["edges"].stats["cycles"] > 0 and found["graph"].outputs == ["y0"]
