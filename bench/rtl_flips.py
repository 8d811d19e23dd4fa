"""A machine of RTL any bit of which can be flipped in any cycle: registers, queues, memories.

Every register of the Verilog and every memory gets a number; the register `r_chosen` of the bench
(sim/rtl/bench.v) says which bit of which of them changes at the next edge of the clock. `flips.py` draws and judges
flips.
"""

import dataclasses
import hashlib
import pathlib
import re

from tosaic.hw.config import Config
from tosaic.sim.cache import cached
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.verilog import cached_verilog

NUMBER_BITS, ROW_BITS, BIT_BITS = 16, 24, 24
CHOSEN_BITS = NUMBER_BITS + ROW_BITS + BIT_BITS
_NUMBER = f"bench.r_chosen[{NUMBER_BITS - 1}:0]"
_ROW = f"bench.r_chosen[{NUMBER_BITS + ROW_BITS - 1}:{NUMBER_BITS}]"
_BIT = f"bench.r_chosen[{CHOSEN_BITS - 1}:{NUMBER_BITS + ROW_BITS}]"
_MODULE = re.compile(r"^module (\\\S+|\w+)", re.MULTILINE)
_REGISTER = re.compile(r"^  (?:output )?reg (?:\[(\d+):0\] )?(\S+)(?: = \S+)? ?;$", re.MULTILINE)
_ASSIGNED = re.compile(r"^(  always @\(posedge \S+\)\n    )(\S+) <= ([^\n]*?) ?;$", re.MULTILINE)
_MEMORY = re.compile(r"^  reg (?:\[(\d+):0\] )?(\S+) \[(\d+):0\];$", re.MULTILINE)
_WRITTEN = re.compile(r"^  always @\(posedge (\S+)\) begin\n    if \([^\n]*\)\n      (\S+)\[", re.MULTILINE)
_BLOCK = re.compile(r"tosaic_memory #\(\n(.*?)\n  \) \S+ \(", re.DOTALL)
_STORAGE = """\
    if (|write_enable) words[write_address] <= (words[write_address] & ~mask) | (write_data & mask);
"""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A register, or a memory of several rows; its number is its place among all, from 1 on."""

    module: str
    name: str
    bits: int
    rows: int = 1


def flippable(verilog: str) -> tuple[str, list[Cell]]:
    """Returns the accelerator's Verilog with its ports for flips, and what can be flipped."""
    cells: list[Cell] = []
    pieces = re.split(r"(?=^module )", verilog, flags=re.MULTILINE)
    return "".join(_changed(piece, cells) for piece in pieces), cells


def _changed(text: str, cells: list[Cell]) -> str:
    """A module's text."""
    found = _MODULE.match(text)
    if found is None:
        return text
    module = found[1].strip("\\").removeprefix("tosaic.accelerator").strip(".")
    if module == "tosaic_memory":
        return _flippable_block(text)
    widths = {name: int(high or 0) + 1 for high, name in _REGISTER.findall(text)}

    def register(match: re.Match[str]) -> str:
        bits = widths[match[2]]
        cells.append(Cell(module, match[2].strip("\\"), bits))
        chosen = f"{_NUMBER} == {NUMBER_BITS}'d{len(cells)}"
        return f"{match[1]}{match[2]} <= ({match[3]} ) ^ ({chosen} ? {bits}'d1 << {_BIT} : {bits}'d0);"

    def block(match: re.Match[str]) -> str:
        sizes = {name: int(value) for name, value in re.findall(r"\.(\w+)\(32'd(\d+)\)", match[1])}
        cells.append(Cell(module, "words", sizes["WIDTH"], sizes["DEPTH"]))
        return match[0].replace("#(\n", f"#(\n    .NUMBER({len(cells)}),\n", 1)

    text = _BLOCK.sub(block, _ASSIGNED.sub(register, text))
    clocks = {name: clock for clock, name in _WRITTEN.findall(text)}
    flips = ""
    for high, name, last in _MEMORY.findall(text):
        if name not in clocks:
            continue  # It is only read.
        cells.append(Cell(module, name.strip("\\"), int(high or 0) + 1, int(last) + 1))
        flips += _flip(clocks[name], str(len(cells)), name, int(high or 0) + 1)
    if found[1] == "tosaic":
        ports = ("input [15:0] watch_mutants", f"input [{CHOSEN_BITS - 1}:0] chosen_mutants")
        flips += "".join(f"  {port};\n" for port in (*ports, f"output [{CHOSEN_BITS - 1}:0] active_mutants"))
        flips += "  assign active_mutants = 0;\n"
        text = text.replace("tosaic(", "tosaic(watch_mutants, chosen_mutants, active_mutants, ", 1)
    return text.replace("endmodule", flips + "endmodule", 1)


def _flip(clock: str, number: str, name: str, bits: int | str) -> str:
    mask = f"({{{{({bits} - 1){{1'b0}}}}, 1'b1}} << {_BIT})" if bits != 1 else "1'b1"
    return f"  always @(posedge {clock})\n    if ({_NUMBER} == {number}) {name}[{_ROW}] <= {name}[{_ROW}] ^ {mask};\n"


def _flippable_block(text: str) -> str:
    assert _STORAGE in text
    flip = f"    if ({_NUMBER} == NUMBER) words[{_ROW}][{_BIT}] <= ~words[{_ROW}][{_BIT}];\n"
    return text.replace("#(parameter", "#(parameter NUMBER = 0,", 1).replace(_STORAGE, _STORAGE + flip)


def cells_of(config: Config) -> list[Cell]:
    """What can be flipped in a machine, in the order of its numbers."""
    return flippable(cached_verilog(config).read_text())[1]


def flips_library(config: Config) -> pathlib.Path:
    """The simulator of such a machine."""
    original = cached_verilog(config).read_text()
    key = hashlib.sha256((original + pathlib.Path(__file__).read_text()).encode()).hexdigest()[:20]
    verilog = cached(
        "verilog", f"{config.name}-flips", key, ".v", lambda path: path.write_text(flippable(original)[0])
    )
    options = (*PLAIN.options, f"+define+MUTANTS={CHOSEN_BITS}", "-Wno-MULTIDRIVEN")
    return simulator_library(config, Variant("flips", options, ("-DMUTANTS",), verilog=lambda _: verilog))


def chosen(number: int, row: int, bit: int) -> list[int]:
    """Returns what `Harness.choose_mutants` is told for a flip."""
    value = number | row << NUMBER_BITS | bit << NUMBER_BITS + ROW_BITS
    return [place + 1 for place in range(CHOSEN_BITS) if value >> place & 1]
