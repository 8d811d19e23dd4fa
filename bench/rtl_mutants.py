"""A sample of small changes of the RTL's netlist, and which of them the tests' programs notice. A thermometer, no goal.

    python bench/rtl_mutants.py --count 300 --seed 1 --seconds 3600

The netlist is flattened and optimized, so that bits that nothing reads are gone. Yosys draws the mutants, a share for
each unit: a bit of a cell's port inverted, stuck, or mixed with another one. One simulator has them all, and an input
that chooses one. Programs run one after the other, each on a machine of its own; first those that killed most for
their time. A run without a fault tells which mutants change a bit in a program: the others need not run it.

A mutant is killed by the first program after which the host sees something else than of the machine without a fault:
memory, status and errors, or, if nothing else, cycles and counters. It survived if no program shows it. It was not
judged if the time was over before.
"""

import argparse
import collections
import pathlib
import sys
import tempfile
from collections.abc import Iterable

from cpu_time import cpu_seconds
from rtl_netlist import UNITS, Mutant, active_bits, draw, mutated_verilog
from rtl_stimulus import HUNG, Case, Seen, cases, registers_seen

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.library import Harness

SURVIVED, NOT_JUDGED = "survived", "not judged"
LATE_CYCLES = 3000
"""A mutant's program may take this much longer than twice the time."""
RUN_CYCLES, CYCLE_BYTES = 300, 256
"""What a program costs beside its cycles: a machine is made for it, and a cycle for each CYCLE_BYTES of memory."""
REGISTERS_CYCLES = 15_000
"""Cycles of what a host does with the registers alone, answers that are errors included."""
SAME_UNIT, SAME_MODULE = 3, 20
"""What a program's kills count for a mutant in the same unit and module; elsewhere 1."""


class Judge:
    """Runs programs until one shows a mutant."""

    def __init__(self, config: Config, library: pathlib.Path, mutants: int, programs: Iterable[Case]):
        self._config, self._library, self._bits = config, library, active_bits(mutants)
        self._programs: list[Case | None] = []
        """Programs that end. None stands for what a host does with the registers, without a program."""
        self._wanted: list[Seen] = []
        """What is seen of each on a machine without a fault."""
        self._active: list[set[int]] = []
        """Numbers of the mutants that change a bit in each."""
        for case in (None, *programs):
            seen, active = self._run(case, None, case.max_cycles if case else 0)
            if seen.end != HUNG:
                self._programs.append(case)
                self._wanted.append(seen)
                self._active.append(set(active))
        self._kills = [collections.Counter[str]() for _ in self._programs]
        self._costs = [self._cost(*pair) for pair in zip(self._programs, self._wanted, strict=True)]

    @staticmethod
    def _cost(case: Case | None, wanted: Seen) -> int:
        if case is None:
            return REGISTERS_CYCLES
        cycles = sum(value for name, value in wanted.registers if name == "CYCLES")
        return cycles + RUN_CYCLES + case.program.memory.size // CYCLE_BYTES

    def _run(self, case: Case | None, mutant: int | None, most_cycles: int) -> tuple[Seen, list[int]]:
        """What is seen of a machine with this mutant; for None, of one without a fault, and which were active."""
        harness = Harness(self._library)
        try:
            if mutant is None:
                harness.watch_mutants()
            else:
                harness.choose_mutants([mutant], self._bits)
            seen = registers_seen(harness) if case is None else case.run(harness, self._config, most_cycles)
            return seen, harness.active_mutants(self._bits)
        finally:
            harness.close()

    def _difference(self, index: int, number: int) -> str:
        """What the host sees of a mutant in a program that it does not see without; or nothing."""
        case, wanted = self._programs[index], self._wanted[index]
        longest_cycles = max((value for name, value in wanted.registers if name == "CYCLES"), default=0)
        try:
            seen, _ = self._run(case, number, 2 * longest_cycles + LATE_CYCLES)
        except (DeviceError, AssertionError) as error:
            # The control port does not answer, a reset does not end.
            seen = Seen(str(error))
        if seen == wanted:
            return ""
        if case is None or (seen.end, seen.memory) != (wanted.end, wanted.memory):
            return "memory"
        differing = [a[0] for a, b in zip(seen.registers, wanted.registers, strict=False) if a != b]
        return "registers: " + ", ".join(differing[:3] or ["marks"])

    def _worth(self, index: int, mutant: Mutant) -> float:
        kills = self._kills[index]
        found = kills[""] + SAME_UNIT * kills[mutant.unit] + SAME_MODULE * kills[f"module {mutant.module}"]
        return (found + 0.1) / self._costs[index]

    def judge(self, mutant: Mutant, number: int, end_seconds: float) -> str:
        """How the host sees the mutant; SURVIVED, or NOT_JUDGED where the processor time is over before."""
        active = [index for index in range(len(self._programs)) if number in self._active[index]]
        for index in sorted(active, key=lambda each: (-self._worth(each, mutant), each)):
            if cpu_seconds() > end_seconds:
                return NOT_JUDGED
            if found := self._difference(index, number):
                self._kills[index].update(("", mutant.unit, f"module {mutant.module}"))
                return found
        return SURVIVED


def score(found: list[tuple[Mutant, str]]) -> str:
    """A table by unit, and what survived."""
    out = [
        "| unit | mutants | killed | by cycles or counters only | survived | not judged |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for unit in (*UNITS, "all"):
        own = [how for mutant, how in found if unit in (mutant.unit, "all")]
        left = [own.count(SURVIVED), own.count(NOT_JUDGED)]
        results = sum(how == "memory" or "STATUS" in how or "ERROR" in how for how in own)
        killed = len(own) - sum(left)
        row = (unit, len(own), killed, killed - results, *left)
        out.append(f"| {' | '.join(map(str, row))} |")
    names = [f"- {mutant.module or mutant.unit}: {mutant.name}" for mutant, how in found if how == SURVIVED]
    return "\n".join([*out, "", "Survived:", "", *sorted(names)])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--amount", type=int, default=1, help="programs of each family")
    parser.add_argument("--seconds", type=float, default=3600, help="processor time")
    chosen = parser.parse_args()
    config, end_seconds = CONFIGS[chosen.config], cpu_seconds() + chosen.seconds
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        mutants = draw(config, chosen.count, chosen.seed, folder)
        mutated = mutated_verilog(config, mutants, folder)
        options = (*PLAIN.options, f"+define+MUTANTS={active_bits(len(mutants))}")
        variant = Variant("mutants", options, ("-DMUTANTS",), verilog=lambda _: mutated)
        judge = Judge(config, simulator_library(config, variant), len(mutants), cases(config, chosen.amount))
    found = [(mutant, judge.judge(mutant, number, end_seconds)) for number, mutant in enumerate(mutants, 1)]
    print(score(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
