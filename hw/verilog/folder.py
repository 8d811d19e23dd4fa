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
from .convert import convert
from .packages import fusesoc_core, ip_xact
from .program_notes import program_markdown
from .top_ports import top_comment

WAIVERS = {
    "CASEINCOMPLETE": "the signal that a case sets has its default before it",
    "PROCASSINIT": "registers begin at their reset value, for FPGAs that start without a reset",
    "UNSIGNED": "comparisons with a configuration's limit can be always true",
    "UNUSEDSIGNAL": "some bits of a bus are of no interest to a module",
    "VARHIDDEN": "the loop variable that clears a memory",
    "WIDTHEXPAND": "operands of different widths are meant: unsigned values are extended with zeros",
    "WIDTHTRUNC": "sums of counters wrap",
}
"""Rules of `verilator -Wall` that the text breaks, and why that is right."""


@dataclasses.dataclass(frozen=True)
class Written:
    """What is in the folder."""

    modules: int
    lines: int


def write_folder(config: Config, folder: pathlib.Path, run: BenchRun | None = None) -> Written:
    """Write the accelerator of `config` into an existing folder; with `run` the testbench runs it and compares.

    rtl/MODULE.v, one module per file and no two alike, the top one `tosaic`; tosaic.f: the list of them; lint.vlt:
    Verilator's waivers; tosaic_bench.v: a testbench in plain Verilog; registers.md, .json, .h, .svd; isa.md;
    program.md; tosaic.core for FuseSoC; component.xml, an IP-XACT component. With `run` also its memory.hex and
    expected.hex.
    """
    modules = convert(VerilogTop(config), VERILOG_NAME, for_readers=True)
    texts = modules | {VERILOG_NAME: top_comment(config) + modules[VERILOG_NAME]}
    pages = {
        BENCH: bench_text(config, run),
        f"{VERILOG_NAME}.core": fusesoc_core(config, list(modules)),
        "component.xml": ip_xact(config, modules[VERILOG_NAME], list(modules)),
        **(run.files() if run is not None else {}),
    }
    return _write(config, folder, texts, pages)


def write_wishbone_folder(config: Config, folder: pathlib.Path) -> Written:
    """The same with Wishbone ports (`hw.wishbone`): rtl/MODULE.v, the top one `tosaic_wishbone`, tosaic_wishbone.f,
    lint.vlt, the registers and the notes; no testbench."""
    modules = convert(wishbone.WishboneAccelerator(config), wishbone.VERILOG_NAME, for_readers=True)
    return _write(config, folder, modules, {})


def _write(config: Config, folder: pathlib.Path, modules: dict[str, str], pages: dict[str, str]) -> Written:
    """Modules, the list of them, what belongs to every bus, and more pages."""
    rtl = folder / "rtl"
    rtl.mkdir(exist_ok=True)
    for old in rtl.glob("tosaic*.v"):
        old.unlink()
    for name, text in modules.items():
        (rtl / f"{name}.v").write_text(text)
    pages = pages | {
        f"{next(iter(modules))}.f": "".join(f"rtl/{name}.v\n" for name in modules),
        "lint.vlt": lint_configuration(),
        "registers.md": csr_markdown(),
        "registers.json": csr_json(config),
        "tosaic_registers.h": csr_c_header(config),
        "tosaic.svd": csr_svd(config),
        "isa.md": isa_markdown(),
        "program.md": program_markdown(config),
    }
    for name, text in pages.items():
        (folder / name).write_text(text)
    return Written(len(modules), sum(text.count("\n") for text in modules.values()))


def lint_configuration() -> str:
    """For `verilator --lint-only -Wall lint.vlt -f tosaic.f`."""
    lines = ["`verilator_config", *(f"// {why}\nlint_off -rule {rule}" for rule, why in WAIVERS.items())]
    return "\n".join([*lines, ""])
