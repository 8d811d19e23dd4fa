"""Everything a board's tools need, as files: Verilog, constraints, scripts."""

import dataclasses
import pathlib
from typing import Any

from tosaic.hw.config_text import get_config
from tosaic.hw.top import VERILOG_NAME, VerilogTop
from tosaic.hw.verilog import Progress, convert, convert_rtlil, unseen

from .board import Board, Family
from .machines import machine_of
from .processor import overlay_files
from .quartus import quartus_files
from .serial_board import SerialBoard
from .vivado import serial_script, zynq_script


@dataclasses.dataclass(frozen=True)
class Project:
    """`top`: the top module. `modules`: Verilog by module name, the top first. `files`: constraints and scripts."""

    board: Board
    top: str
    modules: dict[str, str]
    files: dict[str, str]


@dataclasses.dataclass(frozen=True)
class PlatformPart:
    """The part of an Amaranth platform that the accelerator looks at."""

    family: str
    spare_block_ram: bool = False


def make_project(board: Board, progress: Progress = unseen) -> Project:
    """Raises ImportError where amaranth-boards, or what a micro-coded machine needs, is missing."""
    if board.family.has_processor:
        fabric = PlatformPart(
            "series7" if board.family is Family.ZYNQ7 else "ultrascale", board.spare_block_ram
        )
        modules = convert(
            VerilogTop(get_config(board.config)), VERILOG_NAME, platform=fabric, progress=progress
        )
        return Project(board, VERILOG_NAME, modules, {"build.tcl": zynq_script(board)} | overlay_files(board))
    top = "top"
    progress(f"{board.name}: RTLIL by Amaranth", 0, 1)
    plan = _with_rtlil_alone(board.make_platform()).build(SerialBoard(board), name=top, do_build=False)
    texts = {name: text.decode() if isinstance(text, bytes) else text for name, text in plan.files.items()}
    written = convert_rtlil(texts[f"{top}.il"], top, progress)
    modules = {module.name: module.text for module in written} | machine_of(board).sources(board)
    if board.family is Family.CYCLONE5:
        settings, constraints = (_constraints(texts[f"{top}.{suffix}"]) for suffix in ("qsf", "sdc"))
        return Project(board, top, modules, quartus_files(board, settings, constraints, modules))
    suffix = {Family.ECP5: "lpf", Family.ICE40: "pcf", Family.GOWIN: "cst", Family.XILINX7: "xdc"}[
        board.family
    ]
    files = {f"{top}.{suffix}": _constraints(texts[f"{top}.{suffix}"])}
    if board.family is Family.XILINX7:
        files[f"{top}.{suffix}"] += _clock_groups(files[f"{top}.{suffix}"])
        files["build.tcl"] = serial_script(board)
    return Project(board, top, modules, files)


def _with_rtlil_alone(platform: Any) -> Any:
    """The platform, of whose files with a netlist the one in RTLIL is left: the Verilog is ours."""
    kind = type(platform)
    templates = {name: text for name, text in platform.file_templates.items() if "verilog()" not in text}
    templates["{{name}}.il"] = "{{emit_rtlil()}}"
    platform.__class__ = type(kind.__name__, (kind,), {"file_templates": templates})
    return platform


def _clock_groups(constraints: str) -> str:
    """Vivado takes all clocks for related. Those of a PHY are not: synchronizers are between them."""
    lines = (line.split() for line in constraints.splitlines())
    names = [words[2] for words in lines if words[:2] == ["create_clock", "-name"]]
    if len(names) < 2:
        return ""
    groups = (f"-group [get_clocks -include_generated_clocks {name}]" for name in names)
    return f"set_clock_groups -asynchronous {' '.join(groups)}\n"


def _constraints(text: str) -> str:
    """Returns the text without comments (one has the date and the tool) and empty lines."""
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def write_project(project: Project, folder: pathlib.Path) -> list[pathlib.Path]:
    """Write rtl/MODULE.v and the other files; the Verilog's paths, the top first."""
    rtl = folder / "rtl"
    rtl.mkdir(exist_ok=True)
    for old in rtl.glob("*.v"):
        old.unlink()
    for name, text in project.modules.items():
        (rtl / f"{name}.v").write_text(text)
    for name, text in project.files.items():
        (folder / name).write_text(text)
    return [rtl / f"{name}.v" for name in project.modules]
