"""The nightly: tests marked `nightly` and long jobs in parts, and a record of which of them passed, when and where.

    python bench/nightly.py                # all of it, whatever fails before; a summary at the end (make nightly)
    python bench/nightly.py --slice 25     # what a change has touched, then what waited longest; minutes (make slice)
    python bench/nightly.py --touched 20   # what has changed since the record's newest commit, alone
    python bench/nightly.py --ages         # what has waited long; exit 1 above 30 days, or where something never passed

tests/nightly_passed.jsonl has a line for each test and part that passed: the newest pass of each, the newest last.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence

from nightly_parts import ROOT, Part, parts

RECORD = ROOT / "tests/nightly_passed.jsonl"
PYTHON = ROOT / ".venv/bin/python"
PART_SECONDS = 480
GROUP_SECONDS = 240
"""Of the nightly tests that run in one process."""
TELL_DAYS, FAIL_DAYS = 14, 30
NEVER = "0000-00-00"
TORCH_FOLDER = "tests/pytorch/"
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
    """By name."""
    lines = RECORD.read_text().splitlines() if RECORD.exists() else []
    return {each.name: each for each in (Pass(**json.loads(line)) for line in lines)}


def add_passes(found: Iterable[Pass]) -> None:
    """Each in place of the pass before, at the end."""
    kept = read_record()
    for each in found:
        kept.pop(each.name, None)
        kept[each.name] = each
    RECORD.write_text("".join(f"{json.dumps(dataclasses.asdict(each))}\n" for each in kept.values()))


def collected() -> list[str]:
    """Ids of the nightly tests, where torch may be missing: without those that need it."""
    asked = [str(PYTHON), "-m", "pytest", "-m", "nightly", "--collect-only", "-n", "0", "tests"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    ids = [line for line in done.stdout.splitlines() if "::" in line and not line.startswith("ERROR")]
    if done.returncode not in (0, 5):
        sys.exit(f"the nightly tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return ids


def works(record: dict[str, Pass]) -> list[Work]:
    """All that the nightly has: tests by file, in groups that one part's time holds, then the parts."""
    by_file: dict[str, list[str]] = collections.defaultdict(list)
    for test in collected():
        by_file[test.split("::")[0]].append(test)
    found = []
    for file, tests in by_file.items():
        folder = file.split("/")[1]
        covers = (str(pathlib.PurePath(file).parent), *PRODUCT.get(folder, (folder,)))
        needs = (".venv/installed-torch",) if file.startswith(TORCH_FOLDER) else ()
        for group in _groups(tests, record):
            command = (str(PYTHON), "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", "nightly", *group)
            found.append(Work(tuple(group), command, covers, needs, is_tests=True))
    return found + [_work(part) for part in parts()]


def _work(part: Part) -> Work:
    return Work((part.name,), part.command, part.covers, part.needs, part.whole)


def _groups(tests: list[str], record: dict[str, Pass]) -> list[list[str]]:
    """Neighbours whose last times together are within GROUP_SECONDS."""
    groups: list[list[str]] = [[]]
    total = 0.0
    for test in tests:
        seconds = record[test].seconds if test in record else 5.0
        if groups[-1] and total + seconds > GROUP_SECONDS:
            groups.append([])
            total = 0.0
        groups[-1].append(test)
        total += seconds
    return groups


def run(work: Work) -> tuple[list[Pass], list[str]]:
    """What passed and the names of what failed."""
    for target in work.needs:
        subprocess.run(["make", target], cwd=ROOT, check=True)
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "OPENBLAS_NUM_THREADS": "1"}
    limit = None if work.whole else PART_SECONDS
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
            print(f"ended after {limit} s: {work.names[0]}", flush=True)
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
    """Files that differ from the newest commit that the record names; all of them where it names none."""
    order = _git("rev-list", "HEAD").split()
    places = {commit[:length]: place for place, commit in enumerate(order) for length in range(7, 13)}
    known = [places[each.commit] for each in record.values() if each.commit in places]
    if not known:
        return _git("ls-files").split("\n")
    return [name for name in _git("diff", "--name-only", order[min(known)]).split("\n") if name]


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


def run_all(found: list[Work], minutes: float | None) -> int:
    """Until the time is over; the number of names that failed."""
    started, failures, count = time.monotonic(), [], 0
    for work in found:
        if minutes is not None and time.monotonic() - started > minutes * 60:
            break
        print(
            f"== {work.names[0]}" + (f" and {len(work.names) - 1} more" if len(work.names) > 1 else ""),
            flush=True,
        )
        passes, failed = run(work)
        add_passes(passes)
        count += len(passes)
        failures += failed
    print(f"\n{count} passed, {len(failures)} failed")
    for name in failures:
        print(f"FAILED {name}")
    return len(failures)


def tell_ages(names: list[str], record: dict[str, Pass]) -> int:
    """Lists what has waited for more than TELL_DAYS before the day of HEAD; how many are above FAIL_DAYS or new."""
    head = datetime.date.fromisoformat(_git("show", "-s", "--format=%cs", "HEAD").strip())
    bad = 0
    for name in names:
        if name not in record:
            bad += 1
            print(f"never passed: {name} (make slice runs it)")
            continue
        days = (head - datetime.date.fromisoformat(record[name].date)).days
        if days > TELL_DAYS:
            bad += days > FAIL_DAYS
            print(f"passed {days} days ago, on {record[name].commit}: {name}")
    print(f"{len(names)} tests and parts of the nightly, {bad} too old or new without a pass")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--slice", type=float, metavar="MINUTES")
    chosen.add_argument("--touched", type=float, metavar="MINUTES")
    chosen.add_argument("--ages", action="store_true")
    parser.add_argument("names", nargs="*", help="only tests and parts whose names begin so")
    options = parser.parse_args()
    record = read_record()
    found = works(record)
    if options.names:
        found = [work for work in found if any(name.startswith(tuple(options.names)) for name in work.names)]
    if options.ages:
        return 1 if tell_ages([name for work in found for name in work.names], record) else 0
    if options.touched is not None:
        changed = changed_since_record(record)
        touched = [work for work in found if work.is_tests and is_touched(work, changed)]
        return 1 if run_all(ordered(touched, record), options.touched) else 0
    if options.slice is not None:
        return 1 if run_all(ordered([work for work in found if not work.whole], record), options.slice) else 0
    return 1 if run_all(found, None) else 0


if __name__ == "__main__":
    sys.exit(main())
