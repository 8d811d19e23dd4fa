"""Behaviour faults that were planted by hand or drawn with a fixed seed, and the test that sees each.

    python bench/faults.py                       # plants each and runs its test; exit 1 if one is missed
    python bench/faults.py hw/ --part 2/8        # those of some files, in parts
    python bench/faults.py --find tests/compiler # writes which of these tests sees what has no test yet, or a lost one
    python bench/faults.py --draw 40 --seed 1 'sim/emulator/*.py'   # adds faults to the table

A row of faults.csv: a file, a text that occurs once in it and what it becomes, whether `make test` saw it before the
tests were untied from the inside of the product (commit f7a1ab1; empty: not asked), the test that sees it now, and the
reason where none does. Each fault is planted in a fork in which the changed function has its new code. A fault whose
text a refactoring has changed is gone; a similar one may be drawn.
"""

import argparse
import csv
import itertools
import random
import sys
import time
import types
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
from mutation import NOT_JUDGED, PASSED, ROOT, Judging, fails, functions_of_files, in_fork, replace_code
from mutation_operators import as_text, mutants

TABLE = ROOT / "bench/faults.csv"
SEEN, MISSED, EXPLAINED, GONE = "seen", "missed", "missed for a reason", "gone"


@dataclass
class Fault:
    """A row of the table."""

    file: str
    old: str
    new: str
    before: str
    test: str
    reason: str

    def source(self) -> str | None:
        """The file's text with the fault; None where the text that it changes is not there any more, or not once."""
        path = ROOT / self.file
        text, old, new = (
            f"\n{each}\n" for each in (path.read_text() if path.exists() else "", self.old, self.new)
        )
        if text.count(old) != 1:
            return None
        if old.count("\n") != new.count("\n"):
            raise SystemExit(f"{self.file}: {self.old!r} and {self.new!r} must have as many lines")
        return text.replace(old, new)[1:]


def read_table() -> list[Fault]:
    with TABLE.open(newline="") as file:
        return [Fault(**row) for row in csv.DictReader(file)]


def write_table(faults: list[Fault]) -> None:
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(Fault.__annotations__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, faults))


Functions = dict[str, list[types.FunctionType]]
"""The functions of each file."""


def seeing(
    fault: Fault, source: str, functions: Functions, tests: list[pytest.Item], most_seconds: float
) -> str:
    """The first of the tests that fails on the fault; "" if none does before the time is over."""
    module = compile(source, fault.file, "exec")

    def judge() -> str:
        if not replace_code(module, functions[fault.file]):
            return NOT_JUDGED
        begun = time.process_time()
        in_time = itertools.takewhile(lambda _: time.process_time() < begun + most_seconds, tests)
        return next((test.nodeid for test in in_time if fails(test)), PASSED)

    found = in_fork(judge, tests[0].nodeid, int(10 + 3 * most_seconds)) if tests else ""
    if found == NOT_JUDGED:
        raise SystemExit(f"{fault.file}: {fault.old!r} is in no function that these tests import")
    return found


def run(
    session: pytest.Session, faults: list[Fault], candidates: list[str], most_seconds: float
) -> Counter[str]:
    """Judges each fault by its test, then by the candidates, those of a like name first."""
    found, functions = Counter[str](), functions_of_files()
    for fault in faults:
        source = fault.source()
        if source is None:
            found[GONE] += 1
            print(f"{GONE}: {fault.file}: {fault.old.splitlines()[-1].strip()}", flush=True)
            continue
        own = [item for item in session.items if fault.test and _is_of(item.nodeid, fault.test)]
        test = seeing(fault, source, functions, own, most_seconds)
        if not test and candidates and not fault.reason:
            others = [item for each in candidates for item in session.items if item.nodeid.startswith(each)]
            others.sort(key=lambda item: -_likeness(fault.file, item.nodeid))
            test = seeing(fault, source, functions, others, most_seconds)
            fault.test = test.partition("[")[0]
        said = SEEN if test else EXPLAINED if fault.reason else MISSED
        found[said] += 1
        line = fault.old.splitlines()[-1].strip()
        print(f"{said}: {fault.file}: {line}  [{test or fault.reason or fault.test}]", flush=True)
    return found


def _is_of(nodeid: str, test: str) -> bool:
    return nodeid == test or nodeid.startswith((f"{test}[", f"{test}::"))


def _likeness(file: str, nodeid: str) -> int:
    """Words of a module's name that a test's name has, too."""
    words = {Path(file).stem, Path(file).parent.name, *Path(file).stem.split("_")}
    return sum(len(word) for word in words if word.rstrip("s") in nodeid)


def draw(patterns: list[str], count: int, seed: int) -> list[Fault]:
    """Some of all small changes of files' functions, in an order that the seed tells."""
    files = sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern))
    found = [mutant for file in files for mutant, _ in mutants(ROOT, file, lambda line: True)]
    dice = random.Random(seed)
    return [Fault(each.file, *as_text(ROOT, each), "", "", "") for each in dice.sample(found, count)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="starts of names of product files; all, if none is given")
    parser.add_argument("--part", default="1/1", help="of how many parts which one")
    parser.add_argument("--find", nargs="+", default=[], metavar="TESTS", help="the broadest tests first")
    parser.add_argument("--most-seconds", type=float, default=20, help="of processor time for each fault")
    parser.add_argument("--draw", type=int, metavar="COUNT", help="add faults of files of these patterns")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    table = read_table()
    if chosen.draw:
        write_table(table + draw(chosen.files, chosen.draw, chosen.seed))
        return 0
    number, parts = map(int, chosen.part.split("/"))
    faults = [fault for fault in table if not chosen.files or fault.file.startswith(tuple(chosen.files))]
    faults = faults[number - 1 :: parts]
    found = Counter[str]()
    plugin = Judging(lambda session: found.update(run(session, faults, chosen.find, chosen.most_seconds)))
    files = {fault.test.partition("::")[0] for fault in faults if fault.test} | set(chosen.find)
    there = sorted(file for file in files if (ROOT / file.partition("::")[0]).exists())
    if faults and there:
        pytest.main(["-qq", "-s", "-m", "", "-p", "no:cacheprovider", *there], plugins=[plugin])
    if chosen.find:
        write_table(table)
    print(", ".join(f"{found[said]} {said}" for said in (SEEN, MISSED, EXPLAINED, GONE)))
    return int(found[MISSED] > 0 or found.total() < len(faults))


if __name__ == "__main__":
    sys.exit(main())
