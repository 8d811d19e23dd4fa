"""A project for Quartus, run by whoever has it: `quartus_sh --flow compile top` in the folder of the files."""

from collections.abc import Iterable

from .board import Board

_SETTINGS = """\
set_global_assignment -name FAMILY "Cyclone V"
set_global_assignment -name SDC_FILE top.sdc
set_global_assignment -name PROJECT_OUTPUT_DIRECTORY output
"""


def quartus_files(board: Board, settings: str, constraints: str, modules: Iterable[str]) -> dict[str, str]:
    """top.qpf, top.qsf and top.sdc; `settings` and `constraints` are those that Amaranth's platform writes, with one
    Verilog file. The scripts were written by the vendor's manuals and have not been run here."""
    kept = [line for line in settings.splitlines() if "VERILOG_FILE" not in line]
    sources = [f"set_global_assignment -name VERILOG_FILE rtl/{module}.v" for module in modules]
    return {
        "top.qpf": f"# {board.title}: quartus_sh --flow compile top\nPROJECT_REVISION = top\n",
        "top.qsf": "\n".join([*kept, *sources, _SETTINGS]),
        # Ports that no clock belongs to come from pins whose other side has a clock of its own.
        "top.sdc": f"{constraints}derive_clock_uncertainty\n",
    }
