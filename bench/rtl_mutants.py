"""Mutation score of the RTL: which small changes of the netlist the tests' programs notice.

    python bench/rtl_mutants.py --count 2300 --parts 2 --records build/rtl_mutants.jsonl

The netlist is flattened and optimized, so that bits that nothing reads are gone. Yosys draws the mutants, a share for
each unit: a bit of a cell's port inverted, stuck, or mixed with another one. One simulator has them all, and an input
that chooses one. A mutant is killed by the first program after which the host sees something else than of the machine
without a fault: memory, status and errors, or, if nothing else, cycles and counters. What survives the first programs
is given to Yosys' SAT solver: a change that no state, no contents of memories, no input shows at registers, memories or
outputs is none. The others run all programs.

A line of the records is what is known of a mutant: a measurement that was stopped goes on where it ended, and one with
more programs runs those alone, on what survived the others. Another netlist begins anew.
"""

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import multiprocessing
import pathlib
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

from cpu_time import cpu_seconds
from rtl_equivalence import equivalents
from rtl_netlist import UNITS, Mutant, draw, mutated_verilog, netlist
from rtl_stimulus import HUNG, Case, Seen, cases, registers_seen, run_on

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.library import Harness

SURVIVED, EQUIVALENT, OPEN = "survived", "equivalent", "open"
"""OPEN: it survived the programs that have run, and others have not run yet."""
LATE_CYCLES = 3000
"""A mutant's program may take this much longer than twice the time."""
FIRST_CYCLES = 100_000
"""Of the programs before the SAT solver is asked."""
TOGETHER = 40
"""Mutants between two lines of records: the solver is called once for all."""
RUN_CYCLES, CYCLE_BYTES = 300, 256
"""What a program costs beside its cycles: a machine is made for it, and its registers are read; and a cycle for
each CYCLE_BYTES of external memory, which are copied and hashed."""
REASONS = pathlib.Path(__file__).with_name("rtl_mutants_reasons.toml")
SAME_UNIT, SAME_MODULE = 3, 20
"""What a program's kills count for a mutant in the same unit and module; elsewhere 1."""
Record = dict[str, Any]
"""Of a mutant: netlist, unit, module, change, and its name; how it was found and by which program; the programs that it
survived; processor seconds."""


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:10]


class Judge:
    """Runs programs, those that killed most for their time first; each on a machine of its own, for what some read
    depends on what the ones before left."""

    def __init__(self, config: Config, library: pathlib.Path, programs: Iterable[Case]):
        self._config, self._library = config, library
        every: list[Case | None] = [None, *programs]
        ends = [(case, self._run(case, 0, case.max_cycles if case else 0)) for case in every]
        ends = [(case, seen) for case, seen in ends if seen.end != HUNG]
        self.programs = [case for case, _ in ends]
        """Those that end. None is no program, but what a host does with the registers."""
        self._wanted = [seen for _, seen in ends]
        self._kills = [collections.Counter[str]() for _ in self.programs]
        """By unit, by module, and in all ("")."""
        self._costs = [self._cost(*pair) for pair in zip(self.programs, self._wanted, strict=True)]
        self.keys = [self._key(*pair) for pair in zip(self.programs, self._wanted, strict=True)]
        """Of each program, by what it is and does."""

    @staticmethod
    def _cost(case: Case | None, wanted: Seen) -> int:
        size = case.program.memory.size if case else 0
        return dict(wanted.registers).get("CYCLES", 0) + RUN_CYCLES + size // CYCLE_BYTES

    @staticmethod
    def _key(case: Case | None, wanted: Seen) -> str:
        what = repr(
            (case and (case.program.program_address, case.program.program_bytes, case.conditions), wanted)
        )
        return digest(what.encode(), case.program.memory.tobytes() if case else b"")

    @property
    def cycles(self) -> int:
        """Of all programs."""
        return sum(dict(seen.registers).get("CYCLES", 0) for seen in self._wanted)

    def _run(self, case: Case | None, number: int, most: int) -> Seen:
        harness = Harness(self._library)
        try:
            harness.set_mutant(number)
            if case is None:
                return registers_seen(harness)
            return run_on(harness, self._config, case.program, case.conditions, most)
        finally:
            harness.close()

    def learn(self, records: Iterable[Record]) -> None:
        """Which programs killed which mutants before."""
        index = {_name(case): index for index, case in enumerate(self.programs)}
        for record in records:
            if record["program"] in index:
                self._count(index[record["program"]], record["unit"], record["module"])

    def _count(self, index: int, unit: str, module: str) -> None:
        self._kills[index].update(("", f"unit {unit}", f"module {module}"))

    def _worth(self, index: int, mutant: Mutant) -> float:
        kills = self._kills[index]
        found = (
            kills[""]
            + SAME_UNIT * kills[f"unit {mutant.unit}"]
            + SAME_MODULE * kills[f"module {mutant.module}"]
        )
        return (found + 0.1) / self._costs[index]

    def judge(
        self, mutant: Mutant, number: int, passed: set[str], cycles: int | None = None
    ) -> tuple[str, str]:
        """How the mutant was found, SURVIVED where it was not; and by which program. `passed` has the keys of programs
        that do not show it, and gets more. Programs of `cycles` in all are run, the whole rest if None."""
        left = [index for index, key in enumerate(self.keys) if key not in passed]
        for index in sorted(left, key=lambda i: (-self._worth(i, mutant), i)):
            if cycles is not None:
                cycles -= self._costs[index]
                if cycles < 0:
                    break
            case, wanted = self.programs[index], self._wanted[index]
            most = 2 * dict(wanted.registers).get("CYCLES", 0) + LATE_CYCLES
            try:
                seen = self._run(case, number, most)
            except (DeviceError, AssertionError) as error:
                # The control port does not answer, a reset does not end.
                seen = Seen(str(error))
            if seen == wanted:
                passed.add(self.keys[index])
                continue
            self._count(index, mutant.unit, mutant.module)
            name = _name(case)
            if case is None or (seen.end, seen.memory) != (wanted.end, wanted.memory):
                return "memory", name
            differing = [a[0] for a, b in zip(seen.registers, wanted.registers, strict=False) if a != b]
            return "registers: " + ", ".join(differing[:3] or ["marks"]), name
        return SURVIVED, ""


def _name(case: Case | None) -> str:
    return case.name if case else "registers"


@dataclasses.dataclass(frozen=True)
class Sample:
    """Which mutants, and the programs that judge them."""

    config: Config
    count: int
    seed: int = 1
    amount: int = 1
    """Programs of each family."""
    parts: int = 1
    """Processes."""
    seconds: float | None = None
    """Processor time of each after which no more mutants are judged."""
    more_cycles: int | None = None
    """Of programs, for what survives the first ones and is no equal; None for all programs."""
    new_only: bool = False
    """What has a record is not judged again."""
    start: float = 0
    """The part of the mutants after which the first process begins."""

    def drawn(self, folder: pathlib.Path) -> tuple[list[Mutant], pathlib.Path]:
        """The mutants, and the simulator that has them all."""
        mutants = draw(self.config, self.count, self.seed, folder)
        mutated = mutated_verilog(self.config, mutants, folder)
        options = (*PLAIN.options, "+define+MUTANTS")
        variant = Variant("mutants", options, ("-DMUTANTS",), verilog=lambda _: mutated)
        return mutants, simulator_library(self.config, variant)


def measure(sample: Sample, path: pathlib.Path) -> tuple[list[Record], Judge]:
    """Judge what the records in `path` do not tell; returns those of the sample (fewer when its time was up), and the
    judge with its programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        mutants, library = sample.drawn(folder)
        key = digest(netlist(sample.config, folder).read_bytes())
        starts = [sample.start + part / sample.parts for part in range(sample.parts)]
        others = [multiprocessing.Process(target=_part, args=(sample, path, start)) for start in starts[1:]]
        for other in others:
            other.start()
        judge = _judge_from(sample, path, starts[0], (folder, mutants, library, key))
        for other in others:
            other.join()
            if other.exitcode:
                raise RuntimeError(f"a part of the mutants ended with {other.exitcode}")
    known, programs = read_records(path, key), set(judge.keys)
    records = [known[mutant.change] for mutant in mutants if mutant.change in known]
    for record in records:
        if record["how"] == SURVIVED and not programs <= set(record["passed"]):
            record["how"] = OPEN
    return records, judge


def _part(sample: Sample, path: pathlib.Path, start: float) -> None:
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        mutants, library = sample.drawn(folder)
        key = digest(netlist(sample.config, folder).read_bytes())
        _judge_from(sample, path, start, (folder, mutants, library, key))


def _judge_from(
    sample: Sample,
    path: pathlib.Path,
    start: float,
    drawn: tuple[pathlib.Path, list[Mutant], pathlib.Path, str],
) -> Judge:
    """From that part of the mutants on, and those before it then, what no process has judged."""
    folder, mutants, library, key = drawn
    judge = Judge(sample.config, library, cases(sample.config, sample.amount))
    judge.learn(read_records(path, key).values())
    programs, tried, began = set(judge.keys), set[int](), cpu_seconds()
    # In an order without a pattern, so that a measurement that ends early has seen all units.
    order = sorted(range(len(mutants)), key=lambda i: digest(mutants[i].change.encode()))
    first = int(start % 1 * len(order))
    order = order[first:] + order[:first]
    while sample.seconds is None or cpu_seconds() - began < sample.seconds:
        known, before = read_records(path, key), cpu_seconds()

        def is_open(index: int, known: dict[str, Record] = known) -> bool:
            record = known.get(mutants[index].change)
            survived = record is not None and record["how"] == SURVIVED
            left = survived and not sample.new_only and not programs <= set(record["passed"])
            return index not in tried and (record is None or left)

        # What survived before comes first.
        todo = sorted(filter(is_open, order), key=lambda index: mutants[index].change not in known)[:TOGETHER]
        if not todo:
            break
        tried.update(todo)
        records = list(_judged(judge, sample, [(mutants[i], i + 1) for i in todo], known, folder))
        share = round((cpu_seconds() - before) / len(records), 2)
        with path.open("a") as out:
            for record in records:
                spent = share + known.get(record["change"], {}).get("seconds", 0)
                out.write(json.dumps(record | {"netlist": key, "seconds": round(spent, 2)}) + "\n")
    return judge


def _judged(
    judge: Judge,
    sample: Sample,
    numbered: list[tuple[Mutant, int]],
    known: dict[str, Record],
    folder: pathlib.Path,
) -> Iterator[Record]:
    """Some mutants: first the programs that kill most, then the solver, then all other programs."""
    passed = {mutant: set(known.get(mutant.change, {}).get("passed", ())) for mutant, _ in numbered}
    found = {mutant: judge.judge(mutant, number, passed[mutant], FIRST_CYCLES) for mutant, number in numbered}
    asked = [mutant for mutant, (how, _) in found.items() if how == SURVIVED and mutant.change not in known]
    same = equivalents(asked, folder) if asked else set()
    for mutant, number in numbered:
        how, program = found[mutant]
        if mutant in same:
            how = EQUIVALENT
        elif how == SURVIVED:
            how, program = judge.judge(mutant, number, passed[mutant], sample.more_cycles)
        record = {"unit": mutant.unit, "module": mutant.module, "name": mutant.name, "change": mutant.change}
        record |= {"how": how, "program": program}
        yield record | ({"passed": sorted(passed[mutant])} if how == SURVIVED else {})


def read_records(path: pathlib.Path, key: str) -> dict[str, Record]:
    """The last one of each change of the netlist `key`; a line that was cut short counts not."""
    known = dict[str, Record]()
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            if record["netlist"] == key:
                known[record["change"]] = record
    return known


def mutants_page(config: str, records: list[Record], programs: int, cycles: int) -> str:
    """The score of each unit, and what survived. The score counts what is open as not killed."""
    out = [f"## Mutants of `{config}`: {len(records)}, against {programs} programs of {cycles:,} cycles", ""]
    out += [
        "| unit | mutants | results or errors | cycles or counters only | survived | open | no change | score |"
    ]
    out += ["|---|--:|--:|--:|--:|--:|--:|--:|"]
    units = [unit for unit in UNITS if any(record["unit"] == unit for record in records)]
    for unit in (*units, "**all**"):
        own = [record["how"] for record in records if unit in (record["unit"], "**all**")]
        survived, left, same = own.count(SURVIVED), own.count(OPEN), own.count(EQUIVALENT)
        results = sum(how == "memory" or "STATUS" in how or "ERROR" in how for how in own)
        killed, real = len(own) - survived - left - same, max(len(own) - same, 1)
        row = [len(own), results, killed - results, survived, left, same]
        out.append(f"| {unit} | {' | '.join(map(str, row))} | {killed / real:.1%} |")
    out += _with_reasons(records)
    out += _listed(
        records, SURVIVED, "Survivors of all programs, none of which the SAT solver calls no change:"
    )
    out += _listed(
        records, OPEN, "Open: they survived the programs that have run, and others have not run yet:"
    )
    return "\n".join(out) + "\n"


def _with_reasons(records: list[Record]) -> list[str]:
    """How many of those that no program has shown lie where something else is known, and how many do not."""
    left = [record for record in records if record["how"] in (SURVIVED, OPEN)]
    out = ["", "| what no program has shown | survived | open |", "|---|--:|--:|"]
    for entry in (
        *tomllib.loads(REASONS.read_text())["reason"],
        {"modules": ".*", "reason": "no reason is known"},
    ):
        own = [record for record in left if re.fullmatch(entry["modules"], record["module"])]
        left = [record for record in left if record not in own]
        if own:
            modules = ", ".join(f"`{module}`" for module in sorted({record["module"] for record in own}))
            modules = "elsewhere" if entry["modules"] == ".*" else modules
            hows = [record["how"] for record in own]
            out.append(f"| {modules}: {entry['reason']} | {hows.count(SURVIVED)} | {hows.count(OPEN)} |")
    return out


def _listed(records: list[Record], how: str, title: str) -> list[str]:
    """The mutants of one fate, by module."""
    of_module = collections.defaultdict[str, list[str]](list)
    for record in records:
        if record["how"] == how:
            of_module[record["module"]].append(record["name"])
    if not of_module:
        return []
    return [
        "",
        title,
        "",
        *(f"- `{module}`: {'; '.join(sorted(of_module[module]))}" for module in sorted(of_module)),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument("--count", type=int, default=2300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--amount", type=int, default=1, help="programs of each family")
    parser.add_argument("--parts", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, help="processor time after which no more mutants are judged")
    parser.add_argument("--more-cycles", type=int, help="of programs, for a survivor in one go")
    parser.add_argument("--new-only", action="store_true", help="leave survivors of before")
    parser.add_argument("--start", type=float, default=0, help="the part of the mutants to begin after")
    parser.add_argument("--records", type=pathlib.Path, default=pathlib.Path("build/rtl_mutants.jsonl"))
    chosen = parser.parse_args()
    given = {
        field.name: getattr(chosen, field.name)
        for field in dataclasses.fields(Sample)
        if field.name != "config"
    }
    sample = Sample(CONFIGS[chosen.config], **given)
    records, judge = measure(sample, chosen.records)
    print(mutants_page(chosen.config, records, len(judge.programs), judge.cycles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
