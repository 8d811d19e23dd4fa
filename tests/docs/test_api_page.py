"""docs/api.md is what bench/api_page.py makes of the docstrings."""

import importlib.util
import pathlib

import tosaic

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("api_page", ROOT / "bench" / "api_page.py")
assert SPEC is not None and SPEC.loader is not None
api_page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(api_page)


def test_the_page_is_of_the_docstrings():
    assert (ROOT / "docs" / "api.md").read_text() == api_page.page(), "make docs"


def test_every_public_name_is_on_the_page():
    page = api_page.page()
    assert [
        name for name in tosaic.__all__ if f"## {name}\n" not in page and f"| `{name}` |" not in page
    ] == []
    assert "- `run(inputs, input_feed=None, *, check=False, " in page and "model: a path" in page
