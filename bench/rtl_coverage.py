"""Lines and branches of the accelerator's Verilog that the tests' programs reach, on one machine without a reset.

    python bench/rtl_coverage.py --config nano --amount 3 -o build/coverage.md

Lines are Verilator's blocks of statements, branches its two sides of each `if` and of each `?:`. Exit 1 when one that
was not reached has no reason in bench/rtl_coverage_holes.toml.
"""

import argparse
import collections
import contextlib
import dataclasses
import pathlib
import re
import sys
import tempfile
import tomllib

from functional_coverage import FunctionalCoverage
from rtl_stimulus import PORT_BYTES, cases

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.hw.csr_map import REGISTER
from tosaic.sim.registers import REGISTER_BYTES
from tosaic.sim.rtl.build import COVERAGE, simulator_library
from tosaic.sim.rtl.library import Harness
from tosaic.sim.rtl.verilog import cached_verilog

HOLES = pathlib.Path(__file__).with_name("rtl_coverage_holes.toml")
PREFIX = "tosaic.accelerator"
NO_LOGIC = "dump_module"
"""Name in the condition that Yosys writes at the top of each process, so that simulators run it once: never true."""
_ASSIGN = re.compile(r"\s*assign (\\\S*\$\S*) +=\s*(.*);")
_NUMBERED = re.compile(r"\\\S*\$\S*")
EXPANDED = 3
"""Depth to which numbered wires are replaced by what they are."""
_FIELD = re.compile("\x01([^\x02]*)\x02([^\x01']*)")


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    """A place in the Verilog."""

    module: str
    """Module, from the accelerator on, without the numbers that tell lanes, rows and the like apart."""
    kind: str
    """line or branch."""
    line: int
    column: int
    what: str
    """The side of a branch: if, else, cond_then and others."""
    text: str
    """The line's text, with what numbered wires are in place of their names: the numbers are others in each
    configuration and after each change."""


class Verilog:
    """Lines of a file, in which wires that Amaranth numbers can be replaced by what is assigned to them."""

    def __init__(self, text: str):
        self._lines, self._modules, module = text.splitlines(), list[str](), ""
        self._assigned = dict[tuple[str, str], str]()
        for line in self._lines:
            if line.startswith("module "):
                module = line.split()[1]
            elif found := _ASSIGN.match(line):
                self._assigned[module, found[1]] = found[2].strip()
            self._modules.append(module)

    def line(self, number: int) -> str:
        """The line with the wires of its right side, or of its condition, replaced."""
        text, module = self._lines[number - 1].strip(), self._modules[number - 1]
        left, equals, right = text.partition(" = ") if text.startswith("assign ") else ("", "", text)
        return left + equals + self._expanded(module, right, EXPANDED)

    def _expanded(self, module: str, text: str, depth: int) -> str:
        def replaced(name: re.Match[str]) -> str:
            what = self._assigned.get((module, name[0]))
            return name[0] if what is None or not depth else f"({self._expanded(module, what, depth - 1)})"

        return _NUMBERED.sub(replaced, text)


def read_points(path: pathlib.Path, verilog: str) -> dict[Point, int]:
    """How often each place was reached, of the file that Verilator writes."""
    lines, found = Verilog(verilog), collections.Counter[Point]()
    for entry in path.read_text().splitlines():
        fields = dict(_FIELD.findall(entry))
        kind, _, module = fields.get("page", "").partition("/")
        if not entry.startswith("C '") or not module.startswith(PREFIX):
            continue
        text = lines.line(int(fields["l"]))
        if NO_LOGIC in text:
            continue
        name = re.sub(r"\$\d+|(?<=_)\d+", "", module.removeprefix(PREFIX).removeprefix(".")) or "accelerator"
        point = Point(name, kind.removeprefix("v_"), int(fields["l"]), int(fields["n"]), fields["o"], text)
        found[point] += int(entry.rsplit(" ", 1)[1])
    return dict(found)


@dataclasses.dataclass
class Measured:
    """What the programs reached, how many they are, and their cycles."""

    points: dict[Point, int]
    functions: FunctionalCoverage
    programs: int = 0
    cycles: int = 0


def run(config: Config, amount: int) -> Measured:
    """Run `amount` programs of each family."""
    harness, measured = (
        Harness(simulator_library(config, COVERAGE)),
        Measured({}, FunctionalCoverage(config)),
    )
    try:
        for case in cases(config, amount):
            seen = case.run(harness, config)
            measured.programs += 1
            measured.cycles += dict(seen.registers).get("CYCLES", 0)
            measured.functions.observe(case, seen)
            if not seen.registers:
                harness.reset()
        use_control_port(harness)
        with tempfile.TemporaryDirectory(prefix="tosaic-") as folder:
            path = pathlib.Path(folder) / "coverage.dat"
            harness.write_coverage(path)
            measured.points = read_points(path, cached_verilog(config).read_text())
            return measured
    finally:
        harness.close()


def use_control_port(harness: Harness) -> None:
    """Read and write every place of the control port, whether there is a register or not; lock it; do so again."""
    for _ in range(2):
        for offset in range(0, PORT_BYTES, REGISTER_BYTES):
            for access in (
                lambda place: harness.control_read(place),
                lambda place: harness.control_write(place, 0),
            ):
                with contextlib.suppress(DeviceError):
                    access(offset)
        harness.control_write(REGISTER["LOCK"].offset, (1 << 32) - 1)


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why places are not reached: those of a module whose text fits."""

    module: str
    text: str
    reason: str
    side: str = ""
    config: str = ""
    """Empty for all."""

    def explains(self, point: Point, config: str) -> bool:
        """Whether the place is one of those."""
        return self.config in ("", config) and (
            re.fullmatch(self.module, point.module) is not None
            and re.search(self.text, point.text) is not None
            and self.side in ("", point.what)
        )


def reasons() -> list[Reason]:
    return [Reason(**entry) for entry in tomllib.loads(HOLES.read_text())["hole"]]


def page(measured: Measured, config: Config) -> tuple[str, list[str]]:
    """The page's section of a configuration, and the holes and bins without a reason."""
    points = measured.points
    known, holes = reasons(), sorted(point for point, count in points.items() if not count)
    unexplained = [hole for hole in holes if not any(reason.explains(hole, config.name) for reason in known)]
    out = [f"## `{config.name}`: {measured.programs} programs, {measured.cycles:,} cycles\n"]
    out += ["| | places | reached | share |", "|---|--:|--:|--:|"]
    for kind, name in (("line", "lines"), ("branch", "branches")):
        counts = [count for point, count in points.items() if point.kind == kind]
        hit = sum(count > 0 for count in counts)
        out.append(f"| {name} | {len(counts)} | {hit} | {hit / len(counts):.2%} |")
    out += ["", "| module | lines | reached | branches | reached |", "|---|--:|--:|--:|--:|"]
    for module in sorted({point.module for point in points}):
        row = [f"`{module}`"]
        for kind in ("line", "branch"):
            counts = [
                count for point, count in points.items() if (point.module, point.kind) == (module, kind)
            ]
            row += [str(len(counts)), str(sum(count > 0 for count in counts))]
        out.append("| " + " | ".join(row) + " |")
    out += ["", "| not reached | places | because |", "|---|--:|---|"]
    for reason in known:
        fitting = [hole for hole in holes if reason.explains(hole, config.name)]
        if fitting:
            modules = ", ".join(f"`{module}`" for module in sorted({hole.module for hole in fitting}))
            out.append(f"| {modules} | {len(fitting)} | {reason.reason} |")
    out += ["", f"### `{config.name}`: the written model", "", measured.functions.page()]
    problems = [f"{hole.module}: {hole.kind} {hole.what} has no reason: {hole.text}" for hole in unexplained]
    problems += [f"{each} has no reason" for each in measured.functions.unexplained()]
    return "\n".join(out), [f"{config.name}: {problem}" for problem in problems]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", nargs="+", default=["nano"], choices=CONFIGS)
    parser.add_argument("--amount", type=int, default=3, help="of each family of programs")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the page")
    chosen = parser.parse_args()
    sections, missing = list[str](), 0
    for name in chosen.config:
        section, unexplained = page(run(CONFIGS[name], chosen.amount), CONFIGS[name])
        sections.append(section)
        missing += len(unexplained)
        print(*unexplained, sep="\n")
    text = "\n".join(sections)
    if chosen.output:
        chosen.output.write_text(text)
    else:
        print(text)
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
