"""Tests of a folder's units run in one process, which elaborates and compiles each unit once."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Gives tests their groups before pytest-xdist reads them; a test that has one keeps it."""
    for item in items:
        folder = item.path.parent
        if HERE in folder.parents and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(folder.name))
