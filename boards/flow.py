"""Builds a board's bitstream, or goes as far as the open tools reach; every step's results are cached by content."""

import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable

from .board import Board, Family
from .ecp5 import ROUTE_AGAIN, FloorplanError, ask_for, prepare
from .project import Project, make_project, write_project
from .report import Usage, parse_stat, usage_of_cells, with_timing
from .tools import ToolError, check_tools, run_tool, tool_version

Progress = Callable[[str, str], None]
"""Told (what, detail) while a tool runs."""
_SYNTHESIS = {
    Family.ECP5: "synth_ecp5",
    Family.ICE40: "synth_ice40 -dsp -spram",
    Family.GOWIN: "synth_gowin -family gw2a",
    Family.XILINX7: "synth_xilinx -family xc7 -flatten",
    Family.ZYNQ7: "synth_xilinx -family xc7 -flatten",
    Family.ULTRASCALE: "synth_xilinx -family xcup -flatten",
    Family.CYCLONE5: "synth_intel_alm -family cyclonev",
}
SEED = 1
"""Where the placer begins, unless it is told."""
_ECP5_PLACEMENT = ("--placer", "static", "--router", "router2")
"""The static placer makes a tenth less of wire of a ULX3S than the other, and router1 does not end."""
_ANY_ORDER: tuple[str, ...] = ("--no-tmdriv",)
_GOWIN_DIE = "GW2A-18C"
"""The one that these tools are told of: the same in all packages, with memory and without."""
_TIMING = ("--report", "timing.json", "--timing-allow-fail")


@dataclasses.dataclass(frozen=True)
class Built:
    """`bitstream` is None where the open tools do not make it, or the design does not fit."""

    usage: Usage
    bitstream: pathlib.Path | None
    fits: bool


def build(
    board: Board, folder: pathlib.Path, cache: pathlib.Path, progress: Progress, seed: int = SEED
) -> Built:
    """Write the project of `board` into `folder` and build it there.

    Synthesis always; place, route and bitstream for ECP5 and iCE40 if the design fits. `cache` keeps the results of
    each step under a hash of all that goes into it. ToolError where a tool is missing or fails.
    """
    check_tools(board.family)
    progress("Verilog", "")
    project = make_project(board, lambda what, done, total: progress("Verilog", f"{what} {done} of {total}"))
    return build_project(project, folder, cache, progress, seed)


def build_project(
    project: Project, folder: pathlib.Path, cache: pathlib.Path, progress: Progress, seed: int = SEED
) -> Built:
    """The same of a project that is there."""
    board = project.board
    write_project(project, folder)
    flow = _Flow(project, folder, cache, progress, seed)
    usage = flow.synthesize()
    if not board.family.is_open:
        return Built(usage, None, usage.fits(board))
    if not usage.fits(board):
        return Built(usage, None, False)
    usage = flow.place_and_route(usage)
    return Built(usage, flow.pack(), True)


class _Flow:
    def __init__(
        self, project: Project, folder: pathlib.Path, cache: pathlib.Path, progress: Progress, seed: int
    ):
        self.timing = (*_TIMING, "--seed", str(seed))
        self.project, self.folder, self.cache, self.progress = project, folder, cache, progress
        self.board = project.board
        self.key = ""

    def _step(
        self, tool: str, name: str, inputs: str, outputs: tuple[str, ...], arguments: tuple[str, ...]
    ) -> None:
        """Runs a tool unless its outputs are in the cache. `inputs` is what it reads beside the step before."""
        content = "\0".join((self.key, tool, tool_version(tool), inputs, *arguments))
        self.key = hashlib.sha256(content.encode()).hexdigest()[:20]
        kept = self.cache / f"{self.board.name}-{name}-{self.key}"
        if all((kept / output).exists() for output in outputs):
            self.progress(name, "from the cache")
        else:
            run_tool(
                tool,
                arguments,
                self.folder,
                self.folder / f"{name}.log",
                lambda detail: self.progress(name, detail),
            )
            for output in outputs:
                if not (self.folder / output).exists():
                    raise ToolError(f"{tool} has not written {output}; what it said is in {name}.log")
            self._keep(kept, outputs)
        for output in outputs:
            shutil.copyfile(kept / output, self.folder / output)

    def _keep(self, kept: pathlib.Path, outputs: tuple[str, ...]) -> None:
        scratch = kept.with_name(f"{kept.name}.part")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for output in outputs:
            shutil.copyfile(self.folder / output, scratch / output)
        shutil.rmtree(kept, ignore_errors=True)
        scratch.rename(kept)

    def synthesize(self) -> Usage:
        """Yosys: top.json for nextpnr, cells.json with the counts."""
        sources = " ".join(f"rtl/{name}.v" for name in self.project.modules)
        command = _SYNTHESIS[self.board.family]
        logic = f"scratchpad -set abc9.D {self.board.logic_ps}; " if self.board.logic_ps else ""
        script = (
            f"read_verilog {sources}; {logic}{command} -top {self.project.top}; "
            "write_json top.json; tee -q -o cells.json stat -json"
        )
        text = "".join(self.project.modules.values())
        self._step("yosys", "synthesis", text, ("top.json", "cells.json"), ("-p", script))
        cells = parse_stat((self.folder / "cells.json").read_text())
        return usage_of_cells(cells, self.board.family)

    def place_and_route(self, usage: Usage) -> Usage:
        """Runs nextpnr: top.config, top.asc or routed.json, and timing.json."""
        if self.board.family is Family.ECP5:
            usage = self._place_and_route_ecp5()
        elif self.board.family is Family.GOWIN:
            self._place_and_route_gowin()
        else:
            platform = self.board.make_platform()
            device = ("--up5k", "--package", platform.package.lower())
            files = ("--json", "top.json", "--pcf", "top.pcf", "--asc", "top.asc")
            frequency = ("--freq", f"{self.board.clock_hz / 1e6:g}")
            arguments = (*device, *files, *frequency, *self.timing)
            inputs, outputs = self.project.files["top.pcf"], ("top.asc", "timing.json")
            self._step("nextpnr-ice40", "place-and-route", inputs, outputs, arguments)
        plan, needed_mhz = self.board.floorplan, dict[float, float]()
        if plan and plan.asked_hz:
            needed_mhz[plan.asked_hz / 1e6] = self.board.clock_hz / 1e6
        return with_timing(usage, (self.folder / "timing.json").read_text(), needed_mhz)

    def _place_and_route_ecp5(self) -> Usage:
        """What the design takes with the copies of its drivers, without what only keeps places free."""
        platform, top, plan = self.board.make_platform(), self.project.top, self.board.floorplan
        design = json.loads((self.folder / "top.json").read_text())
        try:
            prepared = prepare(design, top, plan)
        except FloorplanError as error:
            raise ToolError(str(error)) from error
        if plan:
            self.progress("floorplan", f"{prepared.blocks} blocks, {prepared.copies} copies of drivers")
        netlist, constraints = json.dumps(design), self.project.files["top.lpf"]
        options = () if plan is None or plan.by_timing else _ANY_ORDER
        if plan and plan.asked_hz:
            constraints += ask_for(design, top, plan.asked_hz)
            options += (ROUTE_AGAIN,)
        (self.folder / "netlist.json").write_text(netlist)
        (self.folder / "asked.lpf").write_text(constraints)
        arguments = (
            platform._nextpnr_device_options[platform.device],
            *("--package", platform._nextpnr_package_options[platform.package].upper()),
            *("--speed", platform.speed, "--json", "netlist.json", "--lpf", "asked.lpf"),
            *("--textcfg", "top.config", *_ECP5_PLACEMENT, *self.timing, *options),
        )
        inputs = f"{constraints}{netlist}"
        self._step("nextpnr-ecp5", "place-and-route", inputs, ("top.config", "timing.json"), arguments)
        return usage_of_cells(prepared.cells, self.board.family)

    def _place_and_route_gowin(self) -> None:
        arguments = (
            *("--device", self.board.part, "--vopt", f"family={_GOWIN_DIE}", "--vopt", "cst=top.cst"),
            *("--json", "top.json", "--write", "routed.json"),
            *("--freq", f"{self.board.clock_hz / 1e6:g}", *self.timing),
        )
        inputs, outputs = self.project.files["top.cst"], ("routed.json", "timing.json")
        self._step("nextpnr-himbaechel-gowin", "place-and-route", inputs, outputs, arguments)

    def pack(self) -> pathlib.Path:
        """The bitstream."""
        if self.board.family is Family.GOWIN:
            arguments = ("-d", _GOWIN_DIE, "-o", "top.fs", "routed.json")
            self._step("gowin_pack", "pack", "", ("top.fs",), arguments)
            return self.folder / "top.fs"
        if self.board.family is Family.ECP5:
            self._step(
                "ecppack",
                "pack",
                "",
                ("top.bit",),
                ("--compress", "--input", "top.config", "--bit", "top.bit"),
            )
            return self.folder / "top.bit"
        self._step("icepack", "pack", "", ("top.bin",), ("top.asc", "top.bin"))
        return self.folder / "top.bin"
