"""Mutation score of the test suite: which small changes to the product fail a test.

    python -m pytest -p bench.mutation_contexts --contexts build/contexts --cpu-durations build/seconds.jsonl tests/...
    python bench/mutation.py --contexts build/contexts --seconds build/seconds.jsonl --count 150 --seed 1 \
        'sim/golden/*.py' 'compiler/*/*.py'

A mutant is drawn from the lines that some test runs. The tests that run its line judge it, the cheapest first, those
of `make nightly` last: so one run tells the score of `make test` and what the nightly tests would add. All tests
are imported once; each mutant is a fork in which the changed function has its new code.
"""

import argparse
import ast
import gc
import json
import os
import random
import resource
import sys
import types
from collections import defaultdict
from pathlib import Path

import coverage
import pytest
from mutation_operators import Mutant, mutants

ROOT = Path.cwd()
CPU_LIMIT_SECONDS = 60
MEMORY_LIMIT_BYTES = 6 << 30
NIGHTLY = "nightly"


class Collected:
    """Pytest plugin: the tests there are, and which of them are nightly."""

    def __init__(self) -> None:
        self.nightly: dict[str, bool] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.nightly = {item.nodeid: item.get_closest_marker(NIGHTLY) is not None for item in session.items}


class FirstFailure:
    """Pytest plugin: the first test that fails."""

    test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


def tests_of_lines(files: list[str]) -> dict[str, dict[int, set[str]]]:
    """File (from ROOT) -> line -> tests that run it."""
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in files:
        data = coverage.CoverageData(file)
        data.read()
        for source in data.measured_files():
            for line, tests in data.contexts_by_lineno(source).items():
                found[os.path.relpath(source, ROOT)][line].update(test for test in tests if test)
    return found


def draw(patterns: list[str], lines: dict[str, dict[int, set[str]]], count: int, seed: int) -> list[Mutant]:
    """`count` mutants on lines that a test runs, each file's share by its number of mutants."""
    files = sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})
    covered = [mutant for file in files for mutant, _ in mutants(ROOT, file, lines[file].get)]
    print(f"{len(covered)} mutants of {len(files)} files are on lines that a test runs")
    return random.Random(seed).sample(covered, min(count, len(covered)))


def functions_of_files() -> dict[str, list[types.FunctionType]]:
    """Every function in this process by its source file (from ROOT)."""
    found: dict[str, list[types.FunctionType]] = defaultdict(list)
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            found[os.path.relpath(os.path.realpath(function.__code__.co_filename), ROOT)].append(function)
    return found


def apply(mutant: Mutant, functions: list[types.FunctionType]) -> bool:
    """Gives those of a file's functions that hold the mutated line their changed code; False if there are none."""
    found = mutants(ROOT, mutant.file, lambda line: line == mutant.line)
    tree = next(tree for each, tree in found if each.number == mutant.number)
    ast.fix_missing_locations(tree)
    changed: dict[tuple[str, int], types.CodeType] = {}
    pending = [compile(tree, mutant.file, "exec")]
    while pending:
        for constant in pending.pop().co_consts:
            if isinstance(constant, types.CodeType):
                changed[constant.co_qualname, constant.co_firstlineno] = constant
                pending.append(constant)
    applied = False
    for function in functions:
        old = function.__code__
        new = changed.get((old.co_qualname, old.co_firstlineno))
        if new is not None and new.co_freevars == old.co_freevars:
            function.__code__ = new.replace(co_filename=old.co_filename)
            applied = True
    return applied


def killer(mutant: Mutant, functions: list[types.FunctionType], tests: list[str]) -> str:
    """The test that fails on the mutant, in a fork; "" if all pass, "time or memory" if the fork does not end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_SECONDS, CPU_LIMIT_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
        first = FirstFailure()
        if not apply(mutant, functions):
            first.test = "not applied"
        elif pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests], plugins=[first]) and not first.test:
            first.test = "pytest itself"
        os.write(write, first.test.encode()[:4000] or b"-")
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return "" if said == "-" else said or "time or memory"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="+", help="patterns of source files")
    parser.add_argument("--contexts", nargs="+", required=True, help="files of bench.mutation_contexts")
    parser.add_argument("--seconds", nargs="+", default=[], help="files of --cpu-durations")
    parser.add_argument(
        "--most-seconds", type=float, default=15, help="of tests per mutant and of each suite"
    )
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", help="a JSON line per mutant")
    chosen = parser.parse_args()
    lines = tests_of_lines(chosen.contexts)
    sample = draw(chosen.modules, lines, chosen.count, chosen.seed)
    files = sorted({test.split("::")[0] for mutant in sample for test in lines[mutant.file][mutant.line]})
    collected = Collected()
    pytest.main(["--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider", *files], plugins=[collected])
    seconds = read_seconds(chosen.seconds)
    functions = functions_of_files()
    tally: dict[str, int] = defaultdict(int)
    for mutant in sample:
        tests = sorted(
            lines[mutant.file][mutant.line] & set(collected.nightly), key=lambda t: (seconds[t], t)
        )
        ordinary = limited(
            [test for test in tests if not collected.nightly[test]], seconds, chosen.most_seconds
        )
        nightly = limited([test for test in tests if collected.nightly[test]], seconds, chosen.most_seconds)
        test, by = (killer(mutant, functions[mutant.file], ordinary) if ordinary else ""), "make test"
        if not test and nightly:
            test, by = killer(mutant, functions[mutant.file], ["-m", NIGHTLY, *nightly]), "nightly only"
        by = "not applied" if test == "not applied" else by if test else "survived"
        tally[by] += 1
        print(
            f"{by:12} {mutant}  [{test or f'{len(ordinary)} + {len(nightly)} of {len(tests)} tests'}]",
            flush=True,
        )
        if chosen.output:
            with open(chosen.output, "a") as output:
                output.write(json.dumps({"mutant": str(mutant), "by": by, "test": test}) + "\n")
    print(", ".join(f"{count} {by}" for by, count in sorted(tally.items())))
    return 0


def read_seconds(files: list[str]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(lambda: 1.0)
    for file in files:
        for line in Path(file).read_text().splitlines():
            each = json.loads(line)
            seconds[each["test"]] = each["setup"] + each["call"] + each["teardown"]
    return seconds


def limited(tests: list[str], seconds: dict[str, float], most: float) -> list[str]:
    """The first of them that take no more than `most` seconds together; one at least."""
    kept, total = [], 0.0
    for test in tests:
        total += seconds[test]
        if kept and total > most:
            break
        kept.append(test)
    return kept


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
