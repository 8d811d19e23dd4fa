"""Changes that keep what the product does, at places drawn by a seed: do the tests of their area stay as they are?

    python bench/refactorings.py --write    # docs/records/refactorings.md
    python bench/refactorings.py --list     # the places alone
    python bench/refactorings.py --narrow   # of the test files those that import a changed module

Five kinds (bench/refactoring_kinds.py) in turn, over four areas. Each change is made in a copy of the committed tree,
where the area's tests are run; the record says which changes they stood, and which tests failed.
"""

import argparse
import ast
import dataclasses
import datetime
import io
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

from refactoring_kinds import KINDS, Place

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs/records/refactorings.md"
SCRATCH = ROOT / "build/refactorings"
SEED, COUNT = 43, 20
RULES = ["tests/test_import_rules.py", "tests/test_function_sizes.py"]
AREAS = {
    "compiler": "compiler",
    "emulator": "sim/emulator",
    "quantizer": "compiler/quantizer",
    "driver": "driver",
}
"""The product's folder of each."""
TESTS = {
    "compiler": ["tests/compiler", "tests/plans"],
    "compiler/importers": ["tests/importers"],
    "compiler/ir": ["tests/ir"],
    "compiler/quantizer": ["tests/quantizer"],
    "sim/emulator": ["tests/emulator", "tests/cores"],
    "driver": ["tests/driver"],
}
"""Test folders of a folder, and of those inside it that have none of their own."""


@dataclasses.dataclass(frozen=True)
class Change:
    kind: str
    area: str
    path: pathlib.Path
    """Path of the file from the root of the repository."""
    place: Place

    def __str__(self) -> str:
        return f"{self.path}:{self.place.line}: {self.place.what}"


def drawn(seed: int, count: int) -> list[Change]:
    """Changes of all kinds and areas, no two of them of one file."""
    dice, found, used = random.Random(seed), list[Change](), set[pathlib.Path]()
    areas = list(AREAS)
    kinds = list(KINDS)
    for number in range(count):
        area = areas[number // len(kinds) % len(areas)]
        # Where a kind has no place, one of the next has.
        for kind in kinds[number % len(kinds) :] + kinds[: number % len(kinds)]:
            paths = [path for path in _modules(area) if path not in used]
            dice.shuffle(paths)
            change = next(filter(None, (_one_of(kind, area, path, dice) for path in paths)), None)
            if change is not None:
                found.append(change)
                used.add(change.path)
                break
    return found


def _one_of(kind: str, area: str, path: pathlib.Path, dice: random.Random) -> Change | None:
    places = [each for each in KINDS[kind]((ROOT / path).read_text()) if _is_free(path, each)]
    return Change(kind, area, path, dice.choice(places)) if places else None


def _modules(area: str) -> list[pathlib.Path]:
    folder = ROOT / AREAS[area]
    others = [ROOT / own for name, own in AREAS.items() if name != area]
    inner = [each for each in others if folder in each.parents]
    paths = sorted(path for path in folder.rglob("*.py") if not any(each in path.parents for each in inner))
    return [path.relative_to(ROOT) for path in paths]


def _is_free(path: pathlib.Path, place: Place) -> bool:
    """Whether the change makes a module that Python reads, and no other one of the product names what is renamed."""
    try:
        ast.parse(place.apply())
    except (SyntaxError, AssertionError):
        return False
    renamed = re.match(r"`(\w+)` renamed", place.what) or re.match(r"helper `(\w+)` inlined", place.what)
    if renamed is None:
        return True
    word = re.compile(rf"\b{renamed[1]}\b")
    folders = ("compiler", "sim", "driver", "hw", "nnr", "boards", "tosaic", "bench")
    others = (each for folder in folders for each in (ROOT / folder).rglob("*.py") if not each.is_symlink())
    return not any(word.search(each.read_text()) for each in others if each.relative_to(ROOT) != path)


def copy_of_the_tree(name: str) -> pathlib.Path:
    """What is committed, in a folder of its own."""
    folder = SCRATCH / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="fully_trusted")
    return folder


def _tests(changes: list[Change], narrow: bool) -> list[str]:
    folders = {max((each for each in TESTS if own.path.is_relative_to(each)), key=len) for own in changes}
    tests = list(dict.fromkeys(test for each in sorted(folders) for test in TESTS[each]))
    if not narrow:
        return [*tests, *RULES]
    modules = [".".join(("tosaic", *own.path.with_suffix("").parts)) for own in changes]
    imports = re.compile("|".join(rf"(from|import) {re.escape(each)}\b" for each in modules))
    files = sorted(path for each in tests for path in (ROOT / each).rglob("test_*.py"))
    own = [str(path.relative_to(ROOT)) for path in files if imports.search(path.read_text())]
    return [*own, *RULES]


def tried(changes: list[Change], narrow: bool, more: list[str]) -> tuple[bool, list[str], float]:
    """Whether the area's tests pass with these changes, those that fail, and the minutes that it took."""
    area = changes[0].area
    folder = copy_of_the_tree(area)
    for change in changes:
        (folder / change.path).write_text(change.place.apply())
    began = datetime.datetime.now()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        *more,
        *_tests(changes, narrow),
    ]
    environment = os.environ | {"PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:
        failed = [done.stdout[-500:] + done.stderr[-500:]]
    minutes = (datetime.datetime.now() - began).total_seconds() / 60
    shutil.rmtree(folder)
    return done.returncode == 0, failed, minutes


def record(changes: list[Change], narrow: bool, more: list[str]) -> tuple[str, int]:
    """The page, and how many changes the tests stood."""
    command = shlex.join(["python", "bench/refactorings.py", "--write", *["--narrow"] * narrow, *more])
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows, stood, notes = list[str](), 0, list[str]()
    for area in AREAS:
        own = [each for each in changes if each.area == area]
        if not own:
            continue
        passed, failed, minutes = tried(own, narrow, more)
        print(
            f"{area}: {len(own)} changes together: {'passed' if passed else failed} in {minutes:.1f} minutes"
        )
        for change in own:
            ok, each_failed = passed, failed
            if not passed:
                ok, each_failed, _ = tried([change], narrow, more)
                print(f"    {change}: {'passed' if ok else each_failed}")
            stood += ok
            told = "passed" if ok else f"{len(each_failed)} failed"
            rows.append(f"| {area} | {change.kind} | `{change.path}` | {change.place.what} | {told} |")
            notes += [] if ok else [f"- {change}: {line}" for line in each_failed]
    tests = "the tests of their area"
    if narrow:
        tests = "those tests of their area that import a changed module, and those that the command names,"
    text = (
        "# Refactorings\n\n"
        f"`{command}` at {head.stdout.strip()}: of {len(changes)} changes that keep what the product does, at places "
        f"drawn by seed {SEED}, {tests} stood {stood}. The changes of an area are made together, and "
        "one by one where a test fails.\n\n"
        "| area | kind | module | change | tests |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    return text + ("\n" + "\n".join(notes) + "\n" if notes else ""), stood


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of the places")
    parser.add_argument("--count", type=int, default=COUNT, help="changes")
    parser.add_argument("--list", action="store_true", help="tell the places alone")
    parser.add_argument("--write", action="store_true", help=f"write {RECORD.relative_to(ROOT)}")
    parser.add_argument(
        "--narrow",
        action="store_true",
        help="of the area's test files only those that import a changed module",
    )
    options, more = parser.parse_known_args()
    changes = drawn(options.seed, options.count)
    if options.list:
        print(*(f"{each.area}: {each.kind}: {each}" for each in changes), sep="\n")
        return 0
    text, stood = record(changes, options.narrow, more)
    if options.write:
        RECORD.write_text(text)
    else:
        print(text)
    return int(stood < len(changes))


if __name__ == "__main__":
    sys.exit(main())
