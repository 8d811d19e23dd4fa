"""Runs a module of cocotb tests on the accelerator, in a process of its own."""

import contextlib
import io
import logging
import os
import pathlib
import re
import tempfile
import xml.etree.ElementTree as ElementTree

from tosaic.errors import DeviceError
from tosaic.hw.config import Config

from .build import TOP, bench_executable, require_cocotb

EXCHANGE = "TOSAIC_BENCH_FOLDER"
"""Environment variable: the folder through which a test module and its caller exchange files."""


def exchange_folder() -> pathlib.Path:
    """The folder that the caller of `simulate` named; for test modules."""
    return pathlib.Path(os.environ[EXCHANGE])


def simulate(config: Config, module: str, folder: pathlib.Path, *, seed: int = 0) -> None:
    """Run all cocotb tests of the importable `module` on the accelerator.

    `folder` is theirs to read and write (`exchange_folder()`); `seed` is cocotb's. Raises DeviceError naming the first
    test that failed, UnsupportedError without cocotb.
    """
    require_cocotb()
    from cocotb_tools.runner import get_runner

    executable = bench_executable(config)
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        place = pathlib.Path(name)
        (place / TOP).symlink_to(executable)
        log, results = place / "run.log", place / "results.xml"
        logging.getLogger("Verilator").setLevel(logging.CRITICAL)
        # Under pytest the runner prints a summary and exits where it should raise.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            get_runner("verilator").test(
                test_module=module,
                hdl_toplevel=TOP,
                hdl_toplevel_lang="verilog",
                build_dir=place,
                test_dir=place,
                results_xml=str(results),
                seed=seed,
                plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{seed % 0x7FFFFFFF + 1}"],
                extra_env={EXCHANGE: str(folder), "COCOTB_LOG_LEVEL": "ERROR"},
                log_file=log,
            )
        _raise_failure(module, results, log)


def _raise_failure(module: str, results: pathlib.Path, log: pathlib.Path) -> None:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()] if log.exists() else []
    if not results.exists():
        errors = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)]
        reason = (errors or [line for line in lines if line] or ["it wrote no results"])[-1]
        raise DeviceError(f"the cocotb simulation of {module} did not start: {reason}")
    cases = list(ElementTree.parse(results).iter("testcase"))
    if not cases:
        raise DeviceError(f"the cocotb simulation of {module} found no tests")
    for case in cases:
        for kind in ("failure", "error"):
            if (found := case.find(kind)) is not None:
                reason = found.get("error_msg") or found.get("message") or (found.text or "").strip()
                first = next(iter(reason.splitlines()), "no message")
                raise DeviceError(f"the cocotb test {module}.{case.get('name')} failed: {first}")
