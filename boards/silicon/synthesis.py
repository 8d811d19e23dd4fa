"""A configuration as a netlist of standard cells: memories as macros, the rest by Yosys and the cells of a library."""

import dataclasses
import gzip
import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence

from amaranth.back import rtlil

from tosaic.hw.config import Config
from tosaic.hw.memory.macros import MacroPlatform, MemoryShape
from tosaic.hw.top import VERILOG_NAME, VerilogTop
from tosaic.hw.verilog import convert_rtlil

from ..tools import check_tool, run_tool, tool_version
from .functions import with_functions
from .liberty import Library
from .netlist import FlatNetlist

Progress = Callable[[str, int, int], None]
EXTRA = "silicon"
"""The extra that brings Yosys."""
DRIVER_LOAD_PF = 0.03
"""Load of a module's outputs for the mapping, some six inputs, and of the cell that drives its inputs."""
_SCRIPT = """\
# Yosys: yosys -s synthesis.ys. cells.lib is the Liberty file, not compressed.
read_verilog -lib memories/*.v
read_verilog {sources}
hierarchy -check -top {top}
proc
# Nothing depends on initial values, and registers of a chip have none.
setattr -unset init w:*
synth -top {top} -run coarse:fine -noabc
# Sums by parallel prefixes: the mapping does not make them of chains.
alumacc
techmap -map +/choices/han-carlson.v
synth -top {top} -run fine:check -noabc
setattr -unset init w:*
dfflibmap -liberty cells.lib{unused}
abc -liberty cells.lib -constr mapping.constr -script {mapping}{unused}
setundef -zero
opt_clean -purge
# Nets are called the same in both files.
rename -enumerate
write_json netlist.json
write_verilog -noattr netlist.v
"""
_MAPPING = "+strash;&get,-n;&st;&dch;&nf;&put;buffer,-c;topo;upsize,-D,{0};dnsize,-D,{0}"
"""For ABC: logic with choices, by area where the period allows it, then buffers and sizes. Yosys' own script takes many
times as long for multipliers."""
_CONSTRAINTS = "set_driving_cell {driver}\nset_load {load_ff:g}\n"
_SDC = """\
# Constraints of {config} for static timing and layout. One clock, one synchronous reset.
create_clock -name clk -period {period:g} [get_ports clk]
set_clock_uncertainty {uncertainty:g} [get_clocks clk]
# Ports of the buses come from registers of the other side and go to such.
set_input_delay {io:g} -clock clk [remove_from_collection [all_inputs] [get_ports clk]]
set_output_delay {io:g} -clock clk [all_outputs]
# A level that a host waits for.
set_false_path -to [get_ports irq]
"""
IO_SHARE, UNCERTAINTY_SHARE = 0.3, 0.05
"""Shares of a period in the SDC: what the other side of the buses takes, and what the clock may be off."""


@dataclasses.dataclass(frozen=True)
class Sources:
    """The Verilog that is synthesised."""

    name: str
    """The name of the configuration."""
    modules: dict[str, str]
    """Verilog by the module's name, the top one first."""
    memories: tuple[MemoryShape, ...]


def make_sources(config: Config, progress: Progress) -> Sources:
    """The modules of `tosaic verilog`, with wrappers for the memories."""
    progress("Verilog", 0, 1)
    platform = MacroPlatform()
    text = rtlil.convert(VerilogTop(config), name=VERILOG_NAME, platform=platform)
    modules = {module.name: module.text for module in convert_rtlil(text, VERILOG_NAME, progress)}
    return Sources(config.name, modules, tuple(sorted(platform.shapes)))


def write_sources(sources: Sources, folder: pathlib.Path, period_ns: float) -> None:
    """rtl/, memories/ with a wrapper for each shape of memory, tosaic.sdc."""
    for name, texts in (
        ("rtl", sources.modules),
        ("memories", {shape.name: shape.verilog() for shape in sources.memories}),
    ):
        place = folder / name
        place.mkdir(exist_ok=True)
        for old in place.glob(f"{VERILOG_NAME}*.v"):
            old.unlink()
        for module, text in texts.items():
            (place / f"{module}.v").write_text(text)
    sdc = _SDC.format(
        config=sources.name,
        period=period_ns,
        uncertainty=period_ns * UNCERTAINTY_SHARE,
        io=period_ns * IO_SHARE,
    )
    (folder / f"{VERILOG_NAME}.sdc").write_text(sdc)


@dataclasses.dataclass(frozen=True)
class CellMapping:
    """What the logic is mapped to, and how."""

    liberty: pathlib.Path
    library: Library
    period_ns: float
    unused: Sequence[str] = ()
    """Patterns of cells that are not used, beside those that the library excludes."""

    def script(self, sources: Sources) -> str:
        """Yosys' commands."""
        unused = [cell.name for cell in self.library.cells.values() if cell.special] + list(self.unused)
        return _SCRIPT.format(
            sources=" ".join(f"rtl/{name}.v" for name in sources.modules),
            top=VERILOG_NAME,
            mapping=_MAPPING.format(round(self.period_ns * 1000)),
            unused="".join(f" -dont_use {name}" for name in unused),
        )

    def constraints(self) -> str:
        """What drives the inputs of a module, and what its outputs drive."""
        driver = self.library.buffer(DRIVER_LOAD_PF)
        return _CONSTRAINTS.format(driver=driver.name, load_ff=DRIVER_LOAD_PF * 1000)


NETLIST, NETLIST_VERILOG = "netlist.json", "netlist.v"


def synthesize(
    sources: Sources, mapping: CellMapping, folder: pathlib.Path, progress: Progress
) -> FlatNetlist:
    """Writes sources and netlist into `folder`; what is there of the same sources, library and script is not made
    again. ToolError where Yosys is missing or fails."""
    check_tool("yosys", EXTRA)
    write_sources(sources, folder, mapping.period_ns)
    script, constraints = mapping.script(sources), mapping.constraints()
    data = mapping.liberty.read_bytes()
    library = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    inputs = [
        *sources.modules.values(),
        *(shape.verilog() for shape in sources.memories),
        script,
        constraints,
    ]
    inputs.append(tool_version("yosys"))
    key = hashlib.sha256("\0".join(inputs).encode() + library).hexdigest()
    kept = folder / "netlist.key"
    made = all((folder / name).is_file() for name in (NETLIST, NETLIST_VERILOG))
    if not made or not kept.is_file() or kept.read_text() != key:
        kept.unlink(missing_ok=True)
        cells = folder / "cells.lib"
        cells.write_bytes(library)
        (folder / "synthesis.ys").write_text(script)
        (folder / "mapping.constr").write_text(constraints)
        try:
            run_tool(
                "yosys",
                ("-s", "synthesis.ys"),
                folder,
                folder / "synthesis.log",
                lambda step: progress(f"synthesis: {step}", 0, 1),
            )
        finally:
            cells.unlink()
        kept.write_text(key)
    progress("netlist", 0, 1)
    return FlatNetlist.of_yosys(json.loads((folder / NETLIST).read_text())["modules"], VERILOG_NAME)


def simulated_rtl(sources: Sources, folder: pathlib.Path) -> pathlib.Path:
    """What is synthesised in a file for Verilator, with the wrappers of its memories."""
    path = folder / "simulated_rtl.v"
    texts = [*sources.modules.values(), *(shape.verilog() for shape in sources.memories)]
    path.write_text("\n".join(texts))
    return path


def simulated(sources: Sources, library: Library, folder: pathlib.Path) -> pathlib.Path:
    """The netlist in a file for Verilator: the functions of its cells, and the wrappers with their bodies."""
    path = folder / "simulated.v"
    netlist = with_functions((folder / NETLIST_VERILOG).read_text(), library)
    texts = [netlist, *(shape.verilog() for shape in sources.memories)]
    path.write_text("\n".join(texts))
    return path
