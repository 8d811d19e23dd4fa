"""Which bits of the RTL's registers the tests' programs make both 0 and 1.

    python bench/rtl_toggles.py --config nano --amount 1

The registers are those of the flat, optimized netlist (rtl_netlist.py). Each has two words beside it, of the bits that
have been 1 and of those that have been 0 before some edge of the clock; the simulator shows them where a build for
mutants shows which were active. Verilator's own toggles are not used: of every wire, they make a model of tens of
megabytes of C++.
"""

import argparse
import collections
import dataclasses
import hashlib
import pathlib
import re
import sys
import tempfile
import tomllib

from rtl_netlist import ACTIVE, CHOSEN, CONTROL, NUMBER_BITS, WORD_BITS, netlist, yosys
from rtl_stimulus import cases, registers_seen

from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.cache import cached
from tosaic.sim.rtl.library import Harness
from tosaic.sim.rtl.verilog import cached_verilog

REASONS = pathlib.Path(__file__).with_name("rtl_toggles_reasons.toml")
_REGISTER = re.compile(r"^  cell \$\w*dff\w* (\S+)\n(.*?)^  end$", re.MULTILINE | re.DOTALL)
_CHUNK = re.compile(r"(\S+)(?: \[(\d+)(?::(\d+))?\])?")


@dataclasses.dataclass(frozen=True)
class Register:
    """A register's cell: its output as the netlist has it, and the names of its bits, the lowest first."""

    output: str
    names: tuple[str, ...]

    @property
    def bits(self) -> int:
        return len(self.names)


def registers(text: str) -> list[Register]:
    """Those of a netlist."""
    widths = {
        name: int(width) for width, name in re.findall(r"^  wire width (\d+) .*?(\S+)$", text, re.MULTILINE)
    }
    found = []
    for _, body in _REGISTER.findall(text):
        output = re.search(r"connect \\Q (.*)", body)
        assert output
        names = list[str]()
        for wire, high, low in _CHUNK.findall(output[1].strip("{} ")):
            if not high and widths.get(wire, 1) == 1:
                names.append(wire)
                continue
            last = int(high) if high else widths[wire] - 1
            first = int(low or high) if high else 0
            names += [f"{wire}[{number}]" for number in range(last, first - 1, -1)]
        found.append(Register(output[1], tuple(reversed(names))))
    return found


def watched_verilog(config: Config, found: list[Register], folder: pathlib.Path) -> pathlib.Path:
    """The netlist's Verilog with the output ACTIVE: of each register, the bits that have been 1, and above them those
    that have been 0; in the cache."""
    text = (folder / "netlist.il").read_text()
    width = active_bits(found)
    added = [
        f"  wire width {NUMBER_BITS} input 9997 \\{CONTROL}",
        f"  wire width {width} input 9998 \\{CHOSEN}",
        f"  wire width {width} output 9999 \\{ACTIVE}",
    ]
    for number, register in enumerate(found):
        added += ["  attribute \\keep 1", f"  wire width {register.bits} \\kept_{number}"]
        added.append(f"  connect \\kept_{number} {register.output}")
    head, end = text.rsplit("\nend\n", 1)
    netlist_text = "\n".join([head, *added, "end", end])

    def make(path: pathlib.Path) -> None:
        (folder / "watched.il").write_text(netlist_text)
        yosys("read_rtlil watched.il\nopt_clean\nwrite_verilog -noattr watched.v\n", folder)
        head, end = (folder / "watched.v").read_text().rsplit("endmodule", 1)
        path.write_text("\n".join([head, *_sticky(found, width), "endmodule" + end]))

    key = hashlib.sha256(netlist_text.encode() + pathlib.Path(__file__).read_bytes()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-toggles", key, ".v", make)


def active_bits(found: list[Register]) -> int:
    """Width of ACTIVE: two bits for each of the registers', in whole words."""
    return -(-2 * sum(register.bits for register in found) // WORD_BITS) * WORD_BITS


def _sticky(found: list[Register], width: int) -> list[str]:
    """Verilog that remembers."""
    out = []
    for number, register in enumerate(found):
        out += [
            f"  reg [{register.bits - 1}:0] ones_{number} = 0, zeros_{number} = 0;",
            f"  always @(posedge clk) if ({CONTROL}[0]) begin",
            f"    ones_{number} <= ones_{number} | kept_{number};",
            f"    zeros_{number} <= zeros_{number} | ~kept_{number};",
            "  end",
        ]
    words, place = [], 0
    for number, register in enumerate(found):
        words.append(
            f"  assign {ACTIVE}[{place} +: {2 * register.bits}] = {{zeros_{number}, ones_{number}}};"
        )
        place += 2 * register.bits
    return [*out, *words, *([f"  assign {ACTIVE}[{width - 1}:{place}] = 0;"] if place < width else [])]


def toggled(config: Config, amount: int) -> dict[str, bool]:
    """Of each bit of a register, by name: whether it has been both. Each program has a machine of its own, and what
    they show counts together."""
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        path = netlist(config, folder)
        (folder / "netlist.il").write_bytes(path.read_bytes())
        found = registers(path.read_text())
        verilog = watched_verilog(config, found, folder)
    width = active_bits(found)
    options = (*PLAIN.options, f"+define+MUTANTS={width}")
    library = simulator_library(
        config, Variant("toggles", options, ("-DMUTANTS",), verilog=lambda _: verilog)
    )
    seen = set[int]()
    for case in (None, *cases(config, amount)):
        harness = Harness(library)
        harness.watch_mutants()
        if case is None:
            registers_seen(harness)
        else:
            case.run(harness, config)
        seen.update(harness.active_mutants(width))
        harness.close()
    bits, place = dict[str, bool](), 1
    for register in found:
        for number, name in enumerate(register.names):
            bits[name] = {place + number, place + register.bits + number} <= seen
        place += 2 * register.bits
    return bits


def modules_of(verilog: str) -> list[str]:
    """Those of the accelerator, the deepest first."""
    names = re.findall(r"^module \\?tosaic\.accelerator\.(\S+)", verilog, re.MULTILINE)
    return sorted(names, key=lambda name: -name.count("."))


def module_of(name: str, modules: list[str]) -> str:
    """The module of a register's bit, without the numbers that tell lanes, rows and the like apart."""
    path = name.replace("\\", "").removeprefix("$flatten").removeprefix("accelerator.")
    found = next((module for module in modules if path.startswith(f"{module}.")), "accelerator")
    return re.sub(r"\$\d+|(?<=_)\d+", "", found)


def toggles_page(config: str, bits: dict[str, bool], modules: list[str]) -> str:
    """A row for each module, and one for each reason why bits stay."""
    by_module = collections.defaultdict[str, list[str]](list)
    for name in bits:
        by_module[module_of(name, modules)].append(name)
    done = sum(bits.values())
    out = [
        f"## Toggles of `{config}`: {len(bits)} bits of registers, {done / len(bits):.2%} of which have been 0 and 1",
        "",
    ]
    out += ["| module | bits | both | never both |", "|---|--:|--:|---|"]
    stayed = {module: [name for name in names if not bits[name]] for module, names in by_module.items()}
    for module, names in sorted(by_module.items()):
        row = [f"`{module}`", len(names), len(names) - len(stayed[module]), _ranges(stayed[module])]
        out.append(f"| {' | '.join(map(str, row))} |")
    out += ["", "| never both | bits | because |", "|---|--:|---|"]
    left = {(module, name) for module, names in stayed.items() for name in names}
    entries = tomllib.loads(REASONS.read_text())["reason"]
    for entry in (*entries, {"module": ".*", "wire": ".*", "reason": "No reason is known."}):
        own = {
            (module, name)
            for module, name in left
            if re.fullmatch(entry["module"], module) and re.fullmatch(entry["wire"], _wire_of(name))
        }
        left -= own
        if own:
            places = ", ".join(f"`{module}`" for module in sorted({module for module, _ in own}))
            out.append(f"| {places} | {len(own)} | {entry['reason']} |")
    return "\n".join(out) + "\n"


def _wire_of(name: str) -> str:
    """The wire's own name."""
    return name.replace("\\", "").partition("[")[0].rpartition(".")[2]


def _ranges(names: list[str]) -> str:
    """Names of wires with their bits together."""
    wires = collections.defaultdict[str, set[int]](set)
    for name in names:
        wires[_wire_of(name)].add(int(name.rstrip("]").rpartition("[")[2]) if name.endswith("]") else 0)
    return "; ".join(
        f"`{wire}` {', '.join(map(str, sorted(numbers)))}" for wire, numbers in sorted(wires.items())
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument("--amount", type=int, default=1, help="programs of each family")
    chosen = parser.parse_args()
    config = CONFIGS[chosen.config]
    modules = modules_of(cached_verilog(config).read_text())
    print(toggles_page(config.name, toggled(config, chosen.amount), modules))
    return 0


if __name__ == "__main__":
    sys.exit(main())
