"""Pytest plugin: which test runs which line of the product. Load it with `-p bench.mutation_contexts`.

`--contexts FILE` writes the lines to FILE, one context of coverage.py per test. Lines that run at import or in
collection have the context "". Children of the process are not seen: what runs under Verilator, in a tool or in a
worker is not a line of the test.
"""

from pathlib import Path

import coverage
import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("boards", "compiler", "driver", "hw", "nnr", "sim", "tosaic")


def pytest_addoption(parser):
    parser.addoption("--contexts", metavar="FILE", help="write the lines that each test runs to FILE")


def pytest_configure(config):
    if file := config.getoption("contexts"):
        config.pluginmanager.register(Contexts(file))


class Contexts:
    def __init__(self, file: str):
        self.coverage = coverage.Coverage(
            data_file=str(Path(file).absolute()),
            config_file=False,
            source=[str(ROOT / name) for name in FOLDERS],
        )
        self.coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_sessionfinish(self):
        self.coverage.stop()
        self.coverage.save()
