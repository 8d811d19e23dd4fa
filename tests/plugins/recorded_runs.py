"""Pytest plugin: what some tests run on the emulator is known, from tests/recorded_runs.json.

Results are compared with golden anyway; here are what results do not show: programs that are longer or slower than
they were, and cycles that are predicted otherwise. A line of the file is a test, with how often it runs a program, the
cycles of all its runs, a digest of what it hands to the emulator (programs, constants, inputs), one of what comes
back (memory, counters, and when each unit does what, or the error), and one of what the compiler predicts and decides
on the way (planning.py). A test that runs something else fails, and says what has changed.

`make recorded-runs` writes the lines again and says which cycles rose; the file's difference is for the review. To
record a test, add its name with `{}` in place of the figures; those that are there run nearly every line of compiler
and emulator that tests of tests/compiler and tests/emulator run at all, most lines three times, at the least cost;
and random graphs and programs.
Tests that Hypothesis feeds are not among them: it draws other examples every time.
"""

import hashlib
import json
from pathlib import Path
from typing import TypedDict

import pytest
from planning import Planning

from tosaic.errors import DeviceError
from tosaic.sim.emulator import Emulator

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded_runs.json"


class Figures(TypedDict):
    """Of all runs of a test."""

    runs: int
    cycles: int
    given: str
    returned: str
    planned: str


def pytest_addoption(parser):
    text = f"run the tests of {RECORDED.name} alone, and write what they run on the emulator to it"
    parser.addoption("--renew-runs", action="store_true", help=text)


def pytest_configure(config):
    config.pluginmanager.register(RecordedRuns(config.getoption("renew_runs")))


class RecordedRuns:
    def __init__(self, renew: bool):
        self._renew = renew
        self._wanted: dict[str, Figures] = json.loads(RECORDED.read_text())
        self._found: dict[str, Figures] = {}
        self._dropped: list[str] = []

    def pytest_collection_modifyitems(self, config, items):
        """The recorded tests of the collected files, when they are renewed."""
        if not self._renew:
            return
        files, names = {item.nodeid.split("::")[0] for item in items}, {item.nodeid for item in items}
        if not any("::" in argument for argument in config.args):
            self._dropped = [n for n in self._wanted if n.split("::")[0] in files and n not in names]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self._wanted])
        items[:] = [item for item in items if item.nodeid in self._wanted]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        if item.nodeid not in self._wanted:
            return (yield)
        with pytest.MonkeyPatch.context() as patch:
            runs = Runs(patch)
            result = yield
        found = self._found[item.nodeid] = runs.figures()
        if not self._renew and found != self._wanted[item.nodeid]:
            pytest.fail(f"{changes(self._wanted[item.nodeid], found)}; if that is meant: make recorded-runs")
        return result

    def pytest_terminal_summary(self, terminalreporter):
        if not self._renew:
            return
        changed = {name: new for name, new in self._found.items() if new != self._wanted[name]}
        lines = [f"{name}: {changes(self._wanted[name], new)}" for name, new in changed.items()]
        rows = {name: old for name, old in self._wanted.items() if name not in self._dropped} | self._found
        text = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in sorted(rows))
        RECORDED.write_text("{\n" + text + "\n}\n")
        lines += [f"{name}: there is no such test any more" for name in self._dropped]
        terminalreporter.line(
            "\n".join([*lines, f"{len(self._found)} tests recorded, {len(changed)} changed"])
        )


class Runs:
    """What the compiler plans, what the emulator is given and what it returns, while `patch` lasts."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self._given, self._returned, self._planning = hashlib.sha256(), hashlib.sha256(), Planning(patch)
        self._count = self._cycles = 0
        run = Emulator.run

        def recorded(emulator, memory, *arguments, **options):
            given = hashlib.sha256(memory)
            self._count += 1
            self._given.update(given.digest() + repr((arguments, sorted(options))).encode())
            try:
                result = run(emulator, memory, *arguments, **options)
            except DeviceError as error:
                self._returned.update(str(error).encode())
                raise
            self._returned.update(hashlib.sha256(memory).digest() + repr(result).encode())
            self._cycles += result.cycles
            return result

        patch.setattr(Emulator, "run", recorded)

    def figures(self) -> Figures:
        digests = (self._given.hexdigest()[:8], self._returned.hexdigest()[:8])
        planned = self._planning.digest()
        return Figures(
            runs=self._count, cycles=self._cycles, given=digests[0], returned=digests[1], planned=planned
        )


def changes(old: Figures, new: Figures) -> str:
    """In words for who reads the difference: cycles first."""
    if not old:
        return f"new: {new['cycles']} cycles"
    words = [f"{old['cycles']} cycles became {new['cycles']}"] if old["cycles"] != new["cycles"] else []
    if old["runs"] != new["runs"]:
        words.append(f"{old['runs']} runs became {new['runs']}")
    if old["given"] != new["given"]:
        words.append("other programs, constants or inputs")
    elif old["returned"] != new["returned"]:
        words.append("the same programs, other results, counters or times")
    if old["planned"] != new["planned"]:
        words.append("other predictions or choices")
    return ", ".join(words)
