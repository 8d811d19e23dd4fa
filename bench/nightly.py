"""The nightly: tests marked `nightly` and long jobs in parts, and a record of which of them passed, when and where.

    python bench/nightly.py                # all of it, whatever fails before; a summary at the end (make nightly)
    python bench/nightly.py --slice 25     # what a change has touched, then what waited longest; minutes (make slice)
    python bench/nightly.py --touched 20   # what has changed since the record's newest commit, alone
    python bench/nightly.py --missing      # what never passed
    python bench/nightly.py --ages         # what has waited long; exit 1 above 30 days, or where one new never passed

`--limit SECONDS` gives a part, or tests that run together, more than 480 seconds: on a machine that does other work.
Names behind the options take only tests and parts that begin so, in this order (`python bench/nightly.py zoo/
tests/proofs`). JOBS, of the environment, is the number of processes (2).

tests/nightly_passed.jsonl has a line for each test and part, by name: its newest pass, with the commit, the day and the
seconds (of a test, of the processor; of a part, by the clock). Of two lines of one name, which a merge leaves, the
newer one holds. What never passed is an error where it is new: once all of a kind (the tests, the zoo, the boards ...)
have passed, the record has a line `complete: KIND`, and from then on `--ages` fails for a name of that kind without a
line.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from nightly_parts import JOBS, ROOT, Part, parts

RECORD = ROOT / "tests/nightly_passed.jsonl"
PYTHON = ROOT / ".venv/bin/python"
PART_SECONDS = 480
GROUP_SECONDS = 240
"""Seconds of the nightly tests that run in one process."""
PYTEST_OPTIONS = ("-m", "nightly", "-n", str(JOBS), "--dist", "loadgroup")
TELL_DAYS, FAIL_DAYS = 14, 30
NEVER = "0000-00-00"
NEW_TEST_SECONDS = 10.0
"""What a test is expected to take that never passed."""
OF_TORCH = (
    "tests/pytorch/",
    "tests/docs/test_five_minutes.py::test_five_minutes[pytorch]",
    "tests/docs/test_notebooks.py::test_a_notebook_runs[pytorch]",
    "tests/importers/test_judge_cases.py::test_a_module_is_judged_in_three_forms",
)
"""How names of tests begin that run only where torch is installed."""
COMPLETE = "complete: "
PRODUCT = {
    "rtl": ("hw", "sim"),
    "hw": ("hw",),
    "proofs": ("hw",),
    "conformance": ("compiler", "sim", "driver/conformance"),
    "compiler": ("compiler",),
    "boards": ("boards", "hw", "sim/board"),
    "random_graphs": ("compiler", "sim"),
    "cores": ("compiler/cores", "hw/cores", "sim"),
    "networks": ("compiler", "sim"),
    "numpy_in": ("compiler", "sim"),
    "fuzzing": ("compiler/importers", "compiler/ir", "nnr", "driver"),
    "importers": ("compiler/importers",),
    "quantizer": ("compiler/quantizer", "driver/quantize"),
    "examples": ("examples",),
    "emulator": ("sim/emulator",),
    "docs": ("docs", "README.md"),
    "pytorch": ("compiler/importers/torch_models", "driver/quantize"),
    "contributing": ("CONTRIBUTING.md", "compiler", "sim", "hw", "boards"),
}
"""Folders of the product that a folder of tests is about; of any other, the folder of its own name."""


@dataclasses.dataclass(frozen=True)
class Work:
    """Nightly tests of one file that run together, or a part."""

    names: tuple[str, ...]
    """What the record calls them."""
    command: Sequence[str] | str
    covers: tuple[str, ...]
    needs: tuple[str, ...] = ()
    whole: bool = False
    is_tests: bool = False


@dataclasses.dataclass(frozen=True)
class Pass:
    """The newest pass of a test or part."""

    name: str
    commit: str
    date: str
    seconds: float


def read_record() -> dict[str, Pass]:
    """Returns the newest pass by name."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    passes = [Pass(**json.loads(line)) for line in lines]
    return {each.name: each for each in sorted(passes, key=lambda each: each.date)}


def write_record(record: dict[str, Pass]) -> None:
    """Writes the lines sorted by name, so that two branches seldom change the same ones."""
    lines = [json.dumps(dataclasses.asdict(record[name])) for name in sorted(record)]
    RECORD.write_text("".join(f"{line}\n" for line in lines))


def with_passes(record: dict[str, Pass], found: list[Pass], names: list[str]) -> dict[str, Pass]:
    """The record with each pass in place of the one before and without what is not among `names`, all that the nightly
    has. A kind of which all have passed is noted as complete, and stays so."""
    record = record | {each.name: each for each in found}
    kept = {name: record[name] for name in names if name in record}
    for each in {kind(name) for name in names}:
        mark = COMPLETE + each
        members = [record[name] for name in names if kind(name) == each and name in record]
        if mark in record:
            kept[mark] = record[mark]
        elif len(members) == sum(kind(name) == each for name in names):
            newest = max(members, key=lambda member: member.date)
            kept[mark] = dataclasses.replace(newest, name=mark, seconds=0.0)
    return kept


def kind(name: str) -> str:
    """The folder of a name: `tests`, or the job of a part."""
    return name.split("/")[0]


def collected(record: dict[str, Pass]) -> list[str]:
    """Ids of the nightly tests. Where torch is missing, those that need it are the ones that the record has."""
    asked = [str(PYTHON), "-m", "pytest", "-m", "nightly", "--collect-only", "-n", "0", "tests"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    ids = [line for line in done.stdout.splitlines() if "::" in line and not line.startswith("ERROR")]
    if done.returncode not in (0, 5):
        sys.exit(f"the nightly tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    if not any(test.startswith(OF_TORCH[0]) for test in ids):
        ids += [name for name in record if name.startswith(OF_TORCH[0])]
    return ids


def works(record: dict[str, Pass]) -> list[Work]:
    """All that the nightly has: tests by file, in groups that one part's time holds, then the parts."""
    by_file: dict[tuple[str, bool], list[str]] = collections.defaultdict(list)
    for test in collected(record):
        by_file[test.split("::")[0], test.startswith(OF_TORCH)].append(test)
    found = []
    for (file, of_torch), tests in by_file.items():
        folder = file.split("/")[1]
        covers = (str(pathlib.PurePath(file).parent), *PRODUCT.get(folder, (folder,)))
        needs = (".venv/installed-torch",) if of_torch else ()
        for group in _groups(tests, record):
            command = (str(PYTHON), "-m", "pytest", *PYTEST_OPTIONS, *group)
            found.append(Work(tuple(group), command, covers, needs, is_tests=True))
    return found + [_work(part) for part in parts()]


def _work(part: Part) -> Work:
    return Work((part.name,), part.command, part.covers, part.needs, part.whole)


def _groups(tests: list[str], record: dict[str, Pass]) -> list[list[str]]:
    """Neighbours whose last times together are within GROUP_SECONDS."""
    groups: list[list[str]] = [[]]
    total = 0.0
    for test in tests:
        seconds = record[test].seconds if test in record else NEW_TEST_SECONDS
        if groups[-1] and total + seconds > GROUP_SECONDS:
            groups.append([])
            total = 0.0
        groups[-1].append(test)
        total += seconds
    return groups


def expected_seconds(work: Work, record: dict[str, Pass]) -> float:
    """What its newest passes took; nothing for what never passed, which is to be tried."""
    return sum(record[name].seconds for name in work.names if name in record)


def run(work: Work, limit_seconds: float) -> tuple[list[Pass], list[str]]:
    """What passed and the names of what failed."""
    for target in work.needs:
        if subprocess.run(["make", target], cwd=ROOT, check=False).returncode:
            return [], list(work.names)
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OPENBLAS_NUM_THREADS": "1"}
    limit = None if work.whole else limit_seconds
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seconds_file = pathlib.Path(folder) / "seconds.jsonl"
        command = work.command
        if work.is_tests:
            command = (*command, "--cpu-durations", str(seconds_file), "-rfE")
        # A shell's children, and those of pytest, end with it.
        process = subprocess.Popen(
            command, shell=isinstance(command, str), cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            failed = process.wait(limit) != 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            print(f"ended after {limit:g} s: {work.names[0]}", flush=True)
            failed = True
        if not work.is_tests:
            seconds = round(time.monotonic() - started, 1)
            return ([], list(work.names)) if failed else ([_passed(work.names[0], seconds)], [])
        lines = seconds_file.read_text().splitlines() if seconds_file.exists() else []
    times = {each["test"]: each for each in map(json.loads, lines)}
    passed = [name for name in work.names if times.get(name, {}).get("outcome") == "passed"]
    total = {
        name: sum(times[name].get(phase, 0.0) for phase in ("setup", "call", "teardown")) for name in passed
    }
    return [_passed(name, round(total[name], 1)) for name in passed], [
        n for n in work.names if n not in passed
    ]


def _passed(name: str, seconds: float) -> Pass:
    return Pass(name, _git("rev-parse", "--short", "HEAD").strip(), _today().isoformat(), seconds)


def _today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def changed_since_record(record: dict[str, Pass]) -> list[str]:
    """Files that differ from the newest commit that the record names, without the record; all where it is empty, none
    where a clone has only a part of the history."""
    order = _git("rev-list", "HEAD").split()
    places = {commit[:length]: place for place, commit in enumerate(order) for length in range(7, 13)}
    known = [places[each.commit] for each in record.values() if each.commit in places]
    if not record:
        return _git("ls-files").split("\n")
    if not known:
        print("what has changed is not known: this history has no commit of the record", flush=True)
        return []
    names = _git("diff", "--name-only", order[min(known)]).split("\n")
    return [name for name in names if name and ROOT / name != RECORD]


def is_touched(work: Work, changed: list[str]) -> bool:
    """Whether a file of a folder that it covers has changed."""
    return any(name == folder or name.startswith(f"{folder}/") for name in changed for folder in work.covers)


def oldest(work: Work, record: dict[str, Pass]) -> str:
    """The day of the pass that is longest ago; NEVER where one is missing."""
    return min((record[name].date if name in record else NEVER) for name in work.names)


def ordered(found: list[Work], record: dict[str, Pass]) -> list[Work]:
    """First what a change has touched, then the rest; in each what never passed, then what has waited longest."""
    changed = changed_since_record(record)
    return sorted(found, key=lambda work: (not is_touched(work, changed), oldest(work, record)))


def named(found: list[Work], beginnings: list[str]) -> list[Work]:
    """Returns the tests and parts whose name begins so, in the order of the beginnings."""

    def place(work: Work) -> int:
        fits = (any(name.startswith(each) for name in work.names) for each in beginnings)
        return next((number for number, fit in enumerate(fits) if fit), len(beginnings))

    return sorted((work for work in found if place(work) < len(beginnings)), key=place)


def run_all(found: list[Work], minutes: float | None, names: list[str], limit_seconds: float) -> int:
    """Runs until the time is over, without what would take longer than is left; returns how many names failed."""
    started, failures, count = time.monotonic(), [], 0
    for work in found:
        left = math.inf if minutes is None else minutes * 60 - (time.monotonic() - started)
        if left <= 0:
            break
        if expected_seconds(work, read_record()) > left:
            continue
        print(
            f"== {work.names[0]}" + (f" and {len(work.names) - 1} more" if len(work.names) > 1 else ""),
            flush=True,
        )
        passes, failed = run(work, limit_seconds)
        write_record(with_passes(read_record(), passes, names))
        count += len(passes)
        failures += failed
    print(f"\n{count} passed, {len(failures)} failed")
    for name in failures:
        print(f"FAILED {name}")
    return len(failures)


def tell_ages(names: list[str], record: dict[str, Pass], head: datetime.date) -> int:
    """Lists what has waited for more than TELL_DAYS before the day `head`, and what never passed; how many are above
    FAIL_DAYS, or never passed though all of their kind had."""
    waiting: collections.Counter[str] = collections.Counter()
    bad = 0
    for name in names:
        if name not in record:
            if COMPLETE + kind(name) in record:
                bad += 1
                print(f"new, and never passed: {name} (make slice runs it)")
            else:
                waiting[name.split("::")[0] if "::" in name else kind(name)] += 1
            continue
        days = (head - datetime.date.fromisoformat(record[name].date)).days
        if days > TELL_DAYS:
            bad += days > FAIL_DAYS
            print(f"passed {days} days ago, on {record[name].commit}: {name}")
    for place, count in sorted(waiting.items()):
        print(f"never passed yet: {count} of {place}")
    never = sum(waiting.values())
    print(f"{len(names)} tests and parts of the nightly: {never} never passed yet, {bad} too old or new")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--slice", type=float, metavar="MINUTES")
    chosen.add_argument("--touched", type=float, metavar="MINUTES")
    chosen.add_argument("--missing", action="store_true")
    chosen.add_argument("--ages", action="store_true")
    parser.add_argument("--limit", type=float, metavar="SECONDS", default=PART_SECONDS)
    parser.add_argument("names", nargs="*", help="only tests and parts whose names begin so")
    options = parser.parse_args()
    record = read_record()
    found = works(record)
    names = [name for work in found for name in work.names]
    if options.names:
        found = named(found, options.names)
    if options.ages:
        head = datetime.date.fromisoformat(_git("show", "-s", "--format=%cs", "HEAD").strip())
        return 1 if tell_ages([name for work in found for name in work.names], record, head) else 0
    if options.touched is not None:
        changed = changed_since_record(record)
        touched = [work for work in found if work.is_tests and is_touched(work, changed)]
        return 1 if run_all(ordered(touched, record), options.touched, names, options.limit) else 0
    if options.slice is not None:
        cut = [work for work in found if not work.whole]
        return 1 if run_all(ordered(cut, record), options.slice, names, options.limit) else 0
    if options.missing:
        found = [work for work in found if any(name not in record for name in work.names)]
    return 1 if run_all(found, None, names, options.limit) else 0


if __name__ == "__main__":
    sys.exit(main())
