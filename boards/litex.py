"""Standalone cores of the LiteX family: Verilog that their own generators write."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tosaic.hw.package_missing import PackageMissing


def litex_versions(packages: tuple[str, ...], extra: str) -> tuple[str, ...]:
    """Returns the versions of the packages that make a core; raises PackageMissing, which names `extra`,
    where one is not installed.
    """
    for name in packages:
        if importlib.util.find_spec(name) is None:
            raise PackageMissing(name, extra)
    return tuple(importlib.metadata.version(name) for name in packages)


def litex_core(generator: str, request: dict, name: str) -> str:
    """The Verilog of module `name` that the module `generator` writes for a request.

    It is the same whenever and wherever it is made."""
    with tempfile.TemporaryDirectory(prefix="tosaic-litex-") as place:
        folder = pathlib.Path(place)
        wanted = folder / "core.json"
        wanted.write_text(json.dumps(request))
        options = ("--no-compile", "--output-dir", str(folder), "--name", name, str(wanted))
        done = subprocess.run(
            [sys.executable, "-m", generator, *options],
            cwd=folder,
            # Names and their order come from sets.
            env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise RuntimeError(f"the generator of {name} failed: {said}")
        return uncommented((folder / "gateware" / f"{name}.v").read_text())


def uncommented(text: str) -> str:
    """Returns Verilog that LiteX wrote without its comments, which tell dates, and without its time scale."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"^(//|`timescale|\s*$).*\n", "", text, flags=re.MULTILINE)
