"""What a page, or a file of figures, was made by: the command, the time, the versions, and digests of what it read."""

import datetime
import os
import pathlib
import platform
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version


def made(digests: Mapping[str, str] | None = None) -> dict[str, str]:
    """Facts by name; `digests` are SHA-256 in hexadecimal digits, by what they are of."""
    facts = {"command": _command(), "date": _date(), "versions": _versions()}
    facts |= {f"{what}, SHA-256": digest for what, digest in (digests or {}).items()}
    return {name: fact for name, fact in facts.items() if fact}


def _command() -> str:
    """As a shell takes it; of a program of the user's own its name, and nothing of a notebook."""
    program = pathlib.Path(sys.argv[0])
    if program.name in ("tosaic", "__main__.py"):
        return shlex.join(["tosaic", *sys.argv[1:]])
    return f"python {program.name}" if program.suffix == ".py" and "ipykernel" not in program.name else ""


def _date() -> str:
    """UTC; SOURCE_DATE_EPOCH, where it is set, in place of now."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.datetime.now(datetime.UTC)
    then = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC) if epoch.isdecimal() else now
    return f"{then:%Y-%m-%d %H:%M} UTC"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name, package in (("NumPy", "numpy"), ("Amaranth", "amaranth"), ("Tosaic", "tosaic")):
        try:
            found.insert(0, f"{name} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
