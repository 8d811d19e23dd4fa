"""The ways in that CONTRIBUTING.md shows: patches in tests/contributing, each a small change that is complete.

    python bench/contributing.py                        # writes their part of CONTRIBUTING.md (make docs)
    python bench/contributing.py try operator FOLDER    # a copy of the repository in FOLDER, with the patch applied
    python bench/contributing.py keep operator FOLDER   # writes the patch again, from what has changed in FOLDER

A patch begins with a head, which git passes over: a title, what the change is, `FILE: what to do there` for each file,
and the commands that must pass, each behind `Run: `. tests/contributing runs them.
"""

import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATCHES = ROOT / "tests/contributing"
PAGE = ROOT / "CONTRIBUTING.md"
NAMES = ("operator", "instruction", "importer_operator", "board", "quantizer_rule")
BEGIN, END = "<!-- written by bench/contributing.py -->\n", "<!-- end of what is written -->\n"
MOST_COLUMNS = 118
LEFT_OUT = ("docs/isa.md",)
"""What `make docs` writes and each change of the instruction set changes: a path names it, no patch has it."""


@dataclasses.dataclass(frozen=True)
class Path:
    """What the head of a patch says, and which lines its diff adds and removes."""

    name: str
    title: str
    about: str
    steps: dict[str, str]
    """What to do, by file, in the order in which one goes."""
    commands: tuple[str, ...]
    """What must pass, at the root of the repository."""
    files: tuple[str, ...]
    """Files of the diff."""
    added: int
    removed: int


def patch_file(name: str) -> pathlib.Path:
    """The patch of a name of NAMES."""
    return PATCHES / f"{name}.patch"


def head_of(text: str) -> str:
    """What stands before the diff."""
    return text[: text.index("diff --git ")]


def read_path(name: str) -> Path:
    """A patch, read."""
    text = patch_file(name).read_text()
    title, about, *rest = (paragraph.strip() for paragraph in head_of(text).strip().split("\n\n"))
    entries = [" ".join(entry.split()) for paragraph in rest for entry in re.split(r"\n(?! )", paragraph)]
    told = [entry.partition(": ") for entry in entries]
    numbers = subprocess.run(
        ["git", "apply", "--numstat", str(patch_file(name))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    counts = [line.split("\t") for line in numbers.stdout.splitlines()]
    return Path(
        name,
        title,
        " ".join(about.split()),
        {file: what for file, _, what in told if file != "Run"},
        tuple(command for word, _, command in told if word == "Run"),
        tuple(file for _, _, file in counts),
        sum(int(added) for added, _, _ in counts),
        sum(int(removed) for _, removed, _ in counts),
    )


def section(path: Path) -> str:
    """A path's part of the page."""
    lines = [f"## {path.title}", textwrap.fill(path.about, MOST_COLUMNS), ""]
    for number, (file, what) in enumerate(path.steps.items(), 1):
        start = f"{number}. "
        lines.append(
            textwrap.fill(f"{start}`{file}`: {what}", MOST_COLUMNS, subsequent_indent=" " * len(start))
        )
    place = patch_file(path.name).relative_to(ROOT)
    size = f"{len(path.files)} files, {path.added} lines added, {path.removed} removed"
    lines += ["", f"The change: [{place}]({place}), {size}. What must pass:", "```"]
    return "\n".join([*lines, *path.commands, "```", ""])


def page(before: str) -> str:
    """CONTRIBUTING.md with the paths as they are today."""
    start, stop = before.index(BEGIN) + len(BEGIN), before.index(END)
    return before[:start] + "\n".join(section(read_path(name)) for name in NAMES) + before[stop:]


def copy_repository(folder: pathlib.Path) -> None:
    """All files that git has, as they are now, and what is new and not ignored."""
    listed = _git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_symlink() or (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def try_patch(name: str, folder: pathlib.Path) -> None:
    """Makes a repository in `folder` with one commit, and the patch as far as it applies."""
    folder.mkdir(parents=True)
    copy_repository(folder)
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "-c", "user.name=try", "-c", "user.email=try@localhost", "commit", "-q", "-m", "before")
    if patch_file(name).exists():
        subprocess.run(["git", "apply", "--reject", str(patch_file(name))], cwd=folder, check=False)


def keep_patch(name: str, folder: pathlib.Path) -> None:
    """Little context, so that a patch applies for long. A new patch gets a head with its files."""
    _git(folder, "add", "-A", "--", ".", ":!*.rej", *(f":!{file}" for file in LEFT_OUT))
    changed = _git(folder, "diff", "--cached", "-U1", "--no-color", "--no-ext-diff", "HEAD")
    if patch_file(name).exists():
        head = head_of(patch_file(name).read_text())
    else:
        files = _git(folder, "diff", "--cached", "--name-only", "HEAD").splitlines()
        head = (
            "Add\n\nTried with\n\n"
            + "".join(f"{file}: \n" for file in files)
            + "\nRun: python -m pytest \n\n"
        )
    patch_file(name).write_text(head + changed)


def _git(folder: pathlib.Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("write", "try", "keep"), default="write")
    parser.add_argument("name", nargs="?", choices=NAMES)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    if options.what == "write":
        PAGE.write_text(page(PAGE.read_text()))
    elif options.folder is None:
        parser.error(f"{options.what} NAME FOLDER")
    else:
        (try_patch if options.what == "try" else keep_patch)(options.name, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
