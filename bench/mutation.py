"""A sample of small changes of the Python, and which of them the tests notice. A thermometer, no goal.

    python bench/mutation.py --count 300 --seed 1 --limit-seconds 3600

A mutant is one changed operator, constant, condition or statement on a line that some test runs. The tests that run its
line judge it, for --most-seconds each: first those that have found most mutants for their time, those of the nightly
last. All tests are imported and collected once; each mutant is a fork in which the changed function has its new code,
and that ends with the first test that fails. A mutant is killed, or it survived; it was not judged if the time was over
before, or if the change cannot be applied to a process that runs.

Which test runs which line is asked first (mutation_contexts.py), or given: --contexts and --seconds. A line of the
output is what is known of a mutant: what was stopped goes on where it ended, while its file is the same.
"""

import argparse
import ast
import contextlib
import functools
import gc
import hashlib
import json
import os
import resource
import subprocess
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol
from cpu_time import cpu_seconds
from mutation_operators import Mutant, mutants

ROOT = Path.cwd()
MEMORY_LIMIT_BYTES = 6 << 30
NIGHTLY = "nightly"
KILLED, SURVIVED, NOT_JUDGED = "killed", "survived", "not judged"
MODULES = ("compiler/**/*.py", "sim/golden/*.py", "sim/emulator/*.py", "driver/quantize/*.py")
JUDGES = (
    "tests/compiler",
    "tests/golden",
    "tests/emulator",
    "tests/quantizer",
    "tests/random_graphs",
    "tests/cores",
)
"""Tests that build no simulator."""
WITHOUT = "not rtl and not reference_model and not shared_models and not firmware"
PASSED, TOO_MUCH = "-", "time or memory"
_OWN_FILE = 20
"""How much more a mutant that a test has found tells of other mutants of its file."""
_NARROW = 0.25
"""Share of a mutant's time for the tests that run the fewest lines."""
_FEW_LINES = 50
"""Lines of a test: fewer make no difference."""
_ABOUT = 100
"""How much more a test tells of a module that its file imports."""
Lines = dict[str, dict[int, set[str]]]
"""File (from the root) -> line -> tests that run it."""
Record = dict[str, Any]
"""A mutant's record: its key, file and text; how it was found, and by which test."""


@functools.cache
def source_digest(file: str) -> str:
    return _digest((ROOT / file).read_bytes())


def _digest(what: bytes) -> str:
    return hashlib.sha256(what).hexdigest()[:10]


def read_records(path: Path | None) -> dict[str, Record]:
    """Returns the records by the mutants' keys, the last one of each; a line that was cut short counts not."""
    found = dict[str, Record]()
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            found[record["key"]] = record
    return found


class Judging:
    """Pytest plugin: in place of running the tests, judges mutants with them."""

    def __init__(self, judge: Callable[[pytest.Session], None]) -> None:
        self._judge = judge

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """No test runs in this process: fixtures and what tests leave behind are those of each fork."""
        self._judge(session)
        return True


def tests_of_lines(files: list[str]) -> Lines:
    """What files of bench.mutation_contexts say."""
    found: Lines = defaultdict(lambda: defaultdict(set))
    for file in files:
        data = coverage.CoverageData(file)
        data.read()
        for source in data.measured_files():
            for line, tests in data.contexts_by_lineno(source).items():
                found[os.path.relpath(source, ROOT)][line].update(test for test in tests if test)
    return found


def draw(patterns: list[str], lines: Lines, count: int, seed: int) -> list[Mutant]:
    """`count` mutants on lines that a test runs, each file's share by its number of mutants. Nearly the same ones when
    a few lines more are run."""
    files = sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})
    covered = [mutant for file in files for mutant, _ in mutants(ROOT, file, lines[file].get)]
    print(f"{len(covered)} mutants of {len(files)} files are on lines that a test runs")
    return sorted(covered, key=lambda each: _digest(f"{seed} {each.number} {each}".encode()))[:count]


def functions_of_files() -> dict[str, list[types.FunctionType]]:
    """Every function in this process by its source file (from ROOT)."""
    found: dict[str, list[types.FunctionType]] = defaultdict(list)
    # A command keeps what it imported from the collector, which would not tell of it.
    gc.unfreeze()
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            found[os.path.relpath(os.path.realpath(function.__code__.co_filename), ROOT)].append(function)
    return found


def apply(mutant: Mutant, functions: list[types.FunctionType]) -> bool:
    """Gives those of a file's functions that hold the mutated line their changed code; False if there are none."""
    found = mutants(ROOT, mutant.file, lambda line: line == mutant.line)
    tree = next(tree for each, tree in found if each.number == mutant.number)
    return replace_code(compile(ast.fix_missing_locations(tree), mutant.file, "exec"), functions)


def replace_code(module: types.CodeType, functions: list[types.FunctionType]) -> bool:
    """Gives functions the code that a changed module has at their lines; False if it has none of them."""
    changed: dict[tuple[str, int], types.CodeType] = {}
    pending = [module]
    while pending:
        for constant in pending.pop().co_consts:
            if isinstance(constant, types.CodeType):
                changed[constant.co_qualname, constant.co_firstlineno] = constant
                pending.append(constant)
    applied = False
    for function in functions:
        old = function.__code__
        new = changed.get((old.co_qualname, old.co_firstlineno))
        if new is not None and not new.co_freevars:
            # What is changed needs no `super()`, or no variable of a function around it, any more.
            new = new.replace(co_freevars=old.co_freevars)
        if new is not None and new.co_freevars == old.co_freevars:
            function.__code__ = new.replace(co_filename=old.co_filename)
            applied = True
    return applied


def killer(
    mutant: Mutant | None, functions: list[types.FunctionType], tests: list[pytest.Item], most_seconds: float
) -> str:
    """The test that fails on the mutant (or as things are), in a fork; "" if all pass, TOO_MUCH if it does not end."""

    def judge() -> str:
        if mutant is not None and not apply(mutant, functions):
            return NOT_JUDGED
        return next((test.nodeid for test in tests if fails(test)), PASSED)

    return in_fork(judge, tests[0].nodeid, int(10 + 3 * most_seconds))


def in_fork(judge: Callable[[], str], broken: str, limit_seconds: int) -> str:
    """What `judge` says in a fork: "" for PASSED, TOO_MUCH if it does not end in time, `broken` if it raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_seconds, limit_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        try:
            found = judge()
        except BaseException:  # Of pytest itself, which runs on the changed code, too.
            found = broken
        os.write(write, found.encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return "" if said == PASSED else said or TOO_MUCH


def fails(test: pytest.Item) -> bool:
    return any(report.failed for report in runtestprotocol(test, nextitem=None, log=False))


class Judge:
    """Mutants, each with its tests; what each test has found."""

    def __init__(
        self,
        sample: list[Mutant],
        lines: Lines,
        seconds: dict[str, float],
        most_seconds: float,
        output: Path | None = None,
        limit_seconds: float | None = None,
    ):
        self._sample, self._lines, self._seconds, self._most = sample, lines, seconds, most_seconds
        self._kills = Counter[str]()
        """Kills of a test, and of a test in a file."""
        self._breadth = Counter(test for own in lines.values() for tests in own.values() for test in tests)
        """Lines that a test runs."""
        self._sound: dict[str, bool] = {}
        """Whether tests that have failed pass without a mutant."""
        self._output, self._known, self._limit = output, read_records(output), limit_seconds
        for record in self._known.values():
            self._count(record["file"], record["test"])

    @property
    def found(self) -> list[Record]:
        """What is known of the sample."""
        return [
            self._known.get(self._key(mutant))
            or {"key": self._key(mutant), "file": mutant.file, "mutant": str(mutant), "by": NOT_JUDGED}
            for mutant in self._sample
        ]

    def open(self) -> list[Mutant]:
        """Returns the mutants that are to be judged."""
        return [mutant for mutant in self._sample if self._key(mutant) not in self._known]

    @staticmethod
    def _key(mutant: Mutant) -> str:
        return f"{source_digest(mutant.file)} {mutant.number} {mutant}"

    def _count(self, file: str, test: str) -> None:
        self._kills.update([test, f"{file} {test}"])

    def __call__(self, session: pytest.Session) -> None:
        """Judge those that are open."""
        tests = {item.nodeid: item for item in session.items}
        functions = functions_of_files()
        started = cpu_seconds()
        for mutant in self.open():
            if self._limit is not None and cpu_seconds() - started > self._limit:
                break
            own = [tests[name] for name in self._lines[mutant.file][mutant.line] if name in tests]
            by, test = self._judge(mutant, functions[mutant.file], own)
            record: Record = {
                "key": self._key(mutant),
                "file": mutant.file,
                "mutant": str(mutant),
                "by": by,
                "test": test,
            }
            self._known[record["key"]] = record
            if self._output is not None:
                with self._output.open("a") as out:
                    out.write(json.dumps(record) + "\n")
            print(f"{by:12} {mutant}  [{test or f'{len(own)} tests'}]", flush=True)

    def _judge(
        self, mutant: Mutant, functions: list[types.FunctionType], tests: list[pytest.Item]
    ) -> tuple[str, str]:
        """How it was found, and by which test."""
        for nightly in (False, True):
            chosen = [test for test in tests if (test.get_closest_marker(NIGHTLY) is not None) == nightly]
            chosen = self._limited(mutant, chosen)
            while chosen:
                test = killer(mutant, functions, chosen, self._most)
                if test == NOT_JUDGED:
                    return test, ""
                if not test:
                    break
                if self._is_sound(test, chosen):
                    self._count(mutant.file, test)
                    return KILLED, test
                chosen = [each for each in chosen if self._sound.get(each.nodeid, True)]
        return SURVIVED, ""

    def _is_sound(self, name: str, tests: list[pytest.Item]) -> bool:
        """Whether the test passes alone, without a mutant; else no failure of it counts."""
        if name not in self._sound:
            own = [test for test in tests if test.nodeid == name]
            self._sound[name] = not own or not killer(None, [], own, self._most)
        return self._sound[name]

    def _limited(self, mutant: Mutant, tests: list[pytest.Item]) -> list[pytest.Item]:
        """The best of them that take no more than the most seconds together; one at least."""
        seconds = {test: self._seconds[test.nodeid] for test in tests}
        kills = {
            test: self._kills[test.nodeid] + _OWN_FILE * self._kills[f"{mutant.file} {test.nodeid}"]
            for test in tests
        }
        worth = {
            test: (kills[test] + 0.1) * self._sight(mutant, test.nodeid) / (seconds[test] + 0.005)
            for test in tests
        }
        tests = [test for test in tests if self._sound.get(test.nodeid, True)]
        best = sorted(tests, key=lambda test: (-worth[test], test.nodeid))
        # A test that runs few lines is about them: some of the time is theirs, whatever they have found so far.
        narrow = _that_take(
            _NARROW * self._most, sorted(tests, key=lambda test: self._breadth[test.nodeid]), seconds
        )
        rest = [test for test in best if test not in narrow]
        chosen = {*narrow, *_that_take(self._most - sum(seconds[test] for test in narrow), rest, seconds)}
        return [test for test in best if test in chosen] or best[:1]

    def _sight(self, mutant: Mutant, test: str) -> float:
        """How much more a test sees that is of the mutant's own part, or runs few lines: it is about these. How much
        more one whose file imports the mutant's module."""
        part, folders = test.split("/")[1], mutant.file.split("/")[:-1]
        sight = (100 if part in folders else 1) / (self._breadth[test] + _FEW_LINES)
        module = "tosaic." + mutant.file.removesuffix(".py").replace("/", ".")
        return sight * (_ABOUT if module in imported_by(test.split("::")[0]) else 1)


def _that_take(most: float, tests: list[pytest.Item], seconds: dict[pytest.Item, float]) -> list[pytest.Item]:
    """The first of the tests that take up to `most` seconds together; one that does not fit is left out."""
    kept, total = list[pytest.Item](), 0.0
    for test in tests:
        if total + seconds[test] <= most:
            kept.append(test)
            total += seconds[test]
    return kept


@functools.cache
def imported_by(file: str) -> set[str]:
    """Modules that a file imports, or things from."""
    found = set[str]()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", default=MODULES, help="patterns of source files")
    parser.add_argument("--contexts", nargs="+", default=[], help="files of bench.mutation_contexts")
    parser.add_argument("--seconds", nargs="+", default=[], help="files of --cpu-durations")
    parser.add_argument("--most-seconds", type=float, default=5, help="of tests per mutant and of each suite")
    parser.add_argument("--limit-seconds", type=float, help="processor time after which no more are judged")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="a JSON line per mutant")
    chosen = parser.parse_args()
    contexts, seconds = (chosen.contexts, chosen.seconds) if chosen.contexts else asked()
    lines = tests_of_lines(contexts)
    sample = draw(chosen.modules, lines, chosen.count, chosen.seed)
    judge = Judge(
        sample, lines, read_seconds(seconds), chosen.most_seconds, chosen.output, chosen.limit_seconds
    )
    files = {test.split("::")[0] for mutant in judge.open() for test in lines[mutant.file][mutant.line]}
    if files:
        arguments = ["-qq", "-s", "-m", "", "-p", "no:cacheprovider", *sorted(files)]
        pytest.main(arguments, plugins=[Judging(judge)])
    tally = Counter(record["by"] for record in judge.found)
    print(", ".join(f"{tally[by]} {by}" for by in (KILLED, SURVIVED, NOT_JUDGED)))
    return 0


def asked() -> tuple[list[str], list[str]]:
    """Files of which test of JUDGES runs which line, and of their seconds."""
    folder = ROOT / "build/mutation"
    folder.mkdir(parents=True, exist_ok=True)
    contexts, seconds = [], []
    for judge in JUDGES:
        files = [str(folder / f"{Path(judge).name}.{kind}") for kind in ("contexts", "seconds")]
        for file in files:
            Path(file).unlink(missing_ok=True)
        plugin = ("-p", "bench.mutation_contexts", "--contexts", files[0], "--cpu-durations", files[1])
        command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, judge, "-k", WITHOUT)
        subprocess.run(command, cwd=ROOT, check=True)
        contexts.append(files[0])
        seconds.append(files[1])
    return contexts, seconds


def read_seconds(files: list[str]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(lambda: 1.0)
    for file in files:
        for line in Path(file).read_text().splitlines():
            each = json.loads(line)
            # A test that its setup skips has no call.
            seconds[each["test"]] = sum(each.get(phase, 0) for phase in ("setup", "call", "teardown"))
    return seconds


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
