"""Stores what each test should give, as TOSA's reference model computes it: the generated suite does not say."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import metadata

import numpy as np

from tosaic.driver.session import Progress
from tosaic.errors import InputError

from .case import ConformanceCase
from .compare import as_numbers

MODEL = "tosa_reference_model"


def find_model() -> str:
    """The reference model's executable; InputError when tosa-tools is not installed."""
    return find_tool(MODEL)


def find_tool(name: str) -> str:
    """A program of tosa-tools; InputError when it is not installed."""
    # The program itself: what the package puts on the path starts a Python for it, 30 times slower.
    try:
        program = pathlib.Path(str(metadata.distribution("tosa-tools").locate_file(f"bin/{name}")))
    except metadata.PackageNotFoundError:
        program = pathlib.Path(sys.executable).parent / name
    found = str(program) if program.is_file() else shutil.which(name)
    if found is None:
        what = ", which computes expected outputs" if name == MODEL else ""
        raise InputError(f"there is no {name}{what}: install the Python package tosa-tools")
    return found


def bake(
    cases: list[ConformanceCase],
    *,
    jobs: int = 1,
    limit_seconds: float = 300.0,
    progress: Progress | None = None,
) -> int:
    """Stores the expected outputs of the positive tests that have none yet; how many tests that were.

    InputError naming the first test that the reference model cannot compute.
    """
    missing = [case for case in cases if not case.baked()]
    if not missing:
        return 0
    model = find_model()
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        running = {pool.submit(_bake, model, case, limit_seconds): case for case in missing}
        try:
            for done, future in enumerate(as_completed(running)):
                future.result()
                if progress:
                    progress(f"bake {running[future].operator}", done + 1, len(missing))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return len(missing)


def _bake(model: str, case: ConformanceCase, limit_seconds: float) -> None:
    # In a folder of its own first: an interrupted run must not leave half a file under the final name.
    with tempfile.TemporaryDirectory(dir=case.folder) as place:
        folder = pathlib.Path(place)
        files = [f"{index}.npy" for index in range(len(case.outputs))]
        command = [
            model,
            f"--test_desc={case.folder / 'desc.json'}",
            f"--output_dir={folder}",
            f"--ofm_file={','.join(files)}",
        ]
        needed = list(files)
        if case.inexact or case.precise:
            # Floats in float64. For ranges the other end of the range comes in a second file.
            command.append("--precise_mode=1")
        if case.inexact or case.bounded:
            needed += [f"bounds_{file}" for file in files]
        try:
            # Without a path it finds no gdb, which would write a backtrace of each error for two seconds.
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=limit_seconds,
                check=False,
                env={**os.environ, "PATH": ""},
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{case.folder}: the reference model takes more than {limit_seconds:g} s"
            ) from None
        if done.returncode or not all((folder / file).is_file() for file in needed):
            reason = (done.stderr + done.stdout).partition("Backtrace generation")[0]
            said = " ".join(reason.split())[:300]
            raise InputError(f"{case.folder}: the reference model fails on it: {said}")
        for name, file in zip(case.outputs, files, strict=True):
            if name in case.inexact:
                ends = [
                    as_numbers(np.load(folder / part), unsigned=name in case.unsigned)
                    for part in (file, f"bounds_{file}")
                ]
                np.save(folder / "range.npy", np.stack([np.minimum(*ends), np.maximum(*ends)]))
                (folder / "range.npy").replace(case.limits(name))
                continue
            if case.bounded and name in case.floats:
                (folder / f"bounds_{file}").replace(case.bounds(name))
            (folder / file).replace(case.expected(name))
