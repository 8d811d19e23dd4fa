"""What a campaign leaves of a failure: a folder with the smallest case that still fails, and a script that shows it.

All campaigns share this. A case is bytes with settings; its judge is a function, found by name as a job's work is, so
that the script calls the very function that the campaign called.
"""

import dataclasses
import difflib
import importlib
import json
import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Piece = TypeVar("Piece")
SHOW = pathlib.Path(__file__).resolve().parents[2] / "bench" / "show_case.py"
MOST_TRIES = 400
"""Largest number of times that a case is judged: a smaller case is worth a minute, not an hour."""


@dataclasses.dataclass(frozen=True)
class Case:
    """What fails."""

    judge: str
    """module:function of (data, settings), which returns what is wrong, or "" if nothing is."""
    folders: tuple[str, ...]
    """Where Python finds it."""
    data: bytes
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Whatever else the judge needs: values that JSON has."""

    def problem(self) -> str:
        """What is wrong, in one line."""
        for folder in self.folders:
            if folder not in sys.path:
                sys.path.insert(0, folder)
        module, _, function = self.judge.partition(":")
        try:
            found = getattr(importlib.import_module(module), function)(self.data, self.settings)
        except Exception as error:  # noqa: BLE001 (whatever goes wrong is what is looked for)
            found = f"{type(error).__name__}: {error}"
        return " ".join(str(found).split())

    def fails_with(self, **changes: Any) -> bool:
        return bool(dataclasses.replace(self, **changes).problem())


def fewest(
    pieces: Sequence[Piece], fails: Callable[[list[Piece]], bool], tries: int = MOST_TRIES
) -> list[Piece]:
    """Some of the pieces, in their order, that still fail: no smaller by leaving out any run of them that was tried.

    Halves first, then ever smaller runs, down to single pieces (delta debugging).
    """
    left, size = list(pieces), max(1, len(pieces) // 2)
    while left and tries > 0:
        at, smaller = 0, False
        while at < len(left) and tries > 0:
            tries -= 1
            rest = left[:at] + left[at + size :]
            if fails(rest):
                left, smaller = rest, True
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(1, min(size // 2, len(left) // 2))
    return left


def smaller_file(case: Case, original: bytes) -> Case:
    """Returns the case with only those changes of `original` that it needs to fail, and then with fewer bytes."""
    changes = [change for change in _changes(original, case.data) if change[0] != "equal"]
    if not case.fails_with(data=_applied(original, changes)):
        changes = []
    if changes:
        kept = fewest(changes, lambda some: case.fails_with(data=_applied(original, some)))
        case = dataclasses.replace(case, data=_applied(original, kept))
    rest = fewest(list(case.data), lambda some: case.fails_with(data=bytes(some)))
    return dataclasses.replace(case, data=bytes(rest))


Change = tuple[str, int, int, bytes]


def _changes(before: bytes, after: bytes) -> list[Change]:
    """What was replaced where in `before`; common ends are cut off first, the rest is compared."""
    head = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    head = min(len(before), len(after)) if head is None else head
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    found = difflib.SequenceMatcher(None, old, new).get_opcodes()
    return [(kind, head + first, head + last, new[low:high]) for kind, first, last, low, high in found]


def _applied(before: bytes, changes: Sequence[Change]) -> bytes:
    parts, at = [], 0
    for _, first, last, new in changes:
        parts += [before[at:first], new]
        at = last
    return b"".join([*parts, before[at:]])


def leave(folder: pathlib.Path, case: Case) -> pathlib.Path:
    """Write data.bin, case.json and show.sh, whose path is returned: it says what is wrong and exits with 1."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.bin").write_bytes(case.data)
    about = {
        "judge": case.judge,
        "folders": case.folders,
        "settings": case.settings,
        "problem": case.problem(),
    }
    (folder / "case.json").write_text(json.dumps(about, indent=1) + "\n")
    script = folder / "show.sh"
    script.write_text(f'exec {shlex.quote(sys.executable)} {shlex.quote(str(SHOW))} "$(dirname "$0")"\n')
    return script


def read(folder: pathlib.Path) -> Case:
    """The case of a folder."""
    about = json.loads((folder / "case.json").read_text())
    return Case(
        about["judge"], tuple(about["folders"]), (folder / "data.bin").read_bytes(), about["settings"]
    )
