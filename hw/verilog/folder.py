"""The folder that `tosaic verilog` writes: modules, file list, register map, notes for drivers."""

import dataclasses
import pathlib

from .. import wishbone
from ..config import Config
from ..csr_doc import csr_markdown
from ..csr_export import csr_c_header, csr_json, csr_svd
from ..isa_doc import isa_markdown
from ..top import VERILOG_NAME, VerilogTop
from .bench_run import BENCH, BenchRun, bench_text
from .convert import Converted, Progress, convert_design, unseen
from .lint import lint_configuration
from .packages import fusesoc_core, ip_xact
from .program_notes import program_markdown
from .top_ports import top_comment


@dataclasses.dataclass(frozen=True)
class Written:
    """What is in the folder."""

    modules: int
    lines: int


def write_folder(
    config: Config, folder: pathlib.Path, run: BenchRun | None = None, progress: Progress = unseen
) -> Written:
    """Write the accelerator of `config` into an existing folder; with `run` the testbench runs it and compares.

    rtl/MODULE.v, one module per file and no two alike, the top one `tosaic`; tosaic.f: the list of them; lint.vlt:
    Verilator's waivers; tosaic_bench.v: a testbench in plain Verilog; registers.md, .json, .h, .svd; isa.md;
    program.md; tosaic.core for FuseSoC; component.xml, an IP-XACT component. With `run` also its memory.hex and
    expected.hex.
    """
    top, *others = convert_design(VerilogTop(config), VERILOG_NAME, progress=progress)
    commented = dataclasses.replace(top, text=top_comment(config) + top.text)
    names = [top.name, *(module.name for module in others)]
    pages = {
        BENCH: bench_text(config, run),
        f"{VERILOG_NAME}.core": fusesoc_core(config, names),
        "component.xml": ip_xact(config, top.ports, names),
        **(run.files() if run is not None else {}),
    }
    return _write(config, folder, [commented, *others], pages)


def write_wishbone_folder(config: Config, folder: pathlib.Path, progress: Progress = unseen) -> Written:
    """The same with Wishbone ports (`hw.wishbone`): rtl/MODULE.v, the top one `tosaic_wishbone`, tosaic_wishbone.f,
    lint.vlt, the registers and the notes; no testbench."""
    modules = convert_design(wishbone.WishboneAccelerator(config), wishbone.VERILOG_NAME, progress=progress)
    return _write(config, folder, modules, {})


def _write(config: Config, folder: pathlib.Path, modules: list[Converted], pages: dict[str, str]) -> Written:
    """Modules, the list of them, what belongs to every bus, and more pages."""
    rtl = folder / "rtl"
    rtl.mkdir(exist_ok=True)
    for old in rtl.glob("tosaic*.v"):
        old.unlink()
    for module in modules:
        (rtl / f"{module.name}.v").write_text(module.text)
    pages = pages | {
        f"{modules[0].name}.f": "".join(f"rtl/{module.name}.v\n" for module in modules),
        "lint.vlt": lint_configuration(modules[0].name, {module.name: module.results for module in modules}),
        "registers.md": csr_markdown(),
        "registers.json": csr_json(config),
        "tosaic_registers.h": csr_c_header(config),
        "tosaic.svd": csr_svd(config),
        "isa.md": isa_markdown(),
        "program.md": program_markdown(config),
    }
    for name, text in pages.items():
        (folder / name).write_text(text)
    return Written(len(modules), sum(module.text.count("\n") for module in modules))
