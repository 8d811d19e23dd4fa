"""Pytest plugin: the processor seconds of each test, which other load on the machine changes little.

`--cpu-durations FILE` appends one JSON line per test when it has ended: `test`, its `outcome` (passed, failed or
skipped), and `setup`, `call`, `teardown` in seconds of user and system time, of this process with its ended children.
`--cpu-top N` prints the N dearest tests. A fixture counts for the test that asks for it first; a child counts for the
test in which it is waited for.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("processor seconds")
    group.addoption(
        "--cpu-durations", metavar="FILE", help="append the processor seconds of each test to FILE"
    )
    group.addoption(
        "--cpu-top", metavar="N", type=int, default=0, help="print the N tests that took the most"
    )


def pytest_configure(config):
    file, top = config.getoption("cpu_durations"), config.getoption("cpu_top")
    if hasattr(config, "workerinput"):
        # A worker of xdist measures; the process that collects the reports writes.
        file = None
    if config.getoption("cpu_durations") or config.getoption("cpu_top"):
        config.pluginmanager.register(ProcessorSeconds(file, top))


def processor_seconds() -> float:
    """User and system time so far, of this process and of its children that have been waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class ProcessorSeconds:
    def __init__(self, file: str | None, top: int):
        # Workers of xdist run in the same directory as their master, but tests change it.
        self.file = Path(file).absolute() if file else None
        self.top = top
        self.seconds: dict[str, dict[str, float]] = defaultdict(dict)
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        return (yield from self._timed(item, "setup"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        return (yield from self._timed(item, "call"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self._timed(item, "teardown"))

    def _timed(self, item, phase):
        started = processor_seconds()
        try:
            return (yield)
        finally:
            item.user_properties.append((f"cpu {phase}", round(processor_seconds() - started, 3)))

    def pytest_runtest_logreport(self, report):
        """Runs in every process; only the one without `workerinput` writes."""
        if report.outcome != "passed" or report.when == "setup":
            self.outcomes[report.nodeid] = report.outcome
        if report.when == "teardown":
            measured = {name[4:]: value for name, value in report.user_properties if name.startswith("cpu ")}
            self.seconds[report.nodeid] = measured
            if self.file:
                with self.file.open("a") as lines:
                    lines.write(
                        json.dumps(
                            {"test": report.nodeid, "outcome": self.outcomes[report.nodeid], **measured}
                        )
                        + "\n"
                    )

    def pytest_terminal_summary(self, terminalreporter):
        if not self.top:
            return
        totals = sorted(((sum(each.values()), test) for test, each in self.seconds.items()), reverse=True)
        terminalreporter.section(
            f"processor seconds: {sum(total for total, _ in totals):.0f} in {len(totals)} tests"
        )
        for total, test in totals[: self.top]:
            terminalreporter.line(f"{total:8.2f} {test}")
