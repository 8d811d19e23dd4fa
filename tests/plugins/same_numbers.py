"""Each test draws the same random numbers whatever ran before it: generators of test modules begin anew for each test.

A module's generator is made once. Which tests of the module draw from it earlier depends on which worker of
pytest-xdist gets them, and a test that compares floats would then be given other numbers in every run.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

_TESTS = str(Path(__file__).parents[1])
_first_states: list[tuple[np.random.Generator, dict]] = []


def pytest_collection_finish() -> None:
    """All test modules are imported and no test ran: remember each generator's state."""
    modules = [
        module
        for module in sys.modules.values()
        if str(getattr(module, "__file__", "") or "").startswith(_TESTS)
    ]
    generators = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, np.random.Generator)
    }
    _first_states[:] = [(generator, generator.bit_generator.state) for generator in generators.values()]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    for generator, state in _first_states:
        generator.bit_generator.state = state
