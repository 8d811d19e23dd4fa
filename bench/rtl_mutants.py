"""Mutation score of the RTL: which small changes of the netlist the tests' programs notice.

    python bench/rtl_mutants.py --count 2300 --parts 2 --records build/rtl_mutants.jsonl

The netlist is flattened and optimized, so that bits that nothing reads are gone. Yosys draws the mutants, a share for
each unit: a bit of a cell's port inverted, stuck, or mixed with another one. One simulator has them all, and an input
that chooses some. A run of the machine without a fault tells which mutants would have changed a bit: the others need
not run that program. A mutant is killed by the first program after which the host sees something else than of the
machine without a fault: memory, status and errors, or, if nothing else, cycles and counters.

First each mutant is judged by itself, by the programs that killed most. What survives is judged by all others, many
mutants at once on one machine, and one by one where the host sees a change. What survives these is given to Yosys' SAT
solver: a change that no state that can be reached (rtl_reachable.py), no contents of memories, no input shows at
registers, memories or outputs is none. Nor is a change of a bit that no output depends on (rtl_unread.py), or of one
that is proved not to be read while it is another one (rtl_unseen.py, rtl_facts.py). What is left is judged once more,
a few mutants at once: one hides another one now and then.

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
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator

from cpu_time import cpu_seconds
from rtl_equivalence import equivalents
from rtl_facts import never_seen
from rtl_mutants_page import EQUIVALENT, OPEN, SURVIVED, Record, mutants_page
from rtl_netlist import Mutant, active_bits, draw, mutated_verilog, netlist
from rtl_stimulus import HUNG, Case, Seen, cases, registers_seen
from rtl_unread import unread

from tosaic.errors import DeviceError
from tosaic.hw.config import CONFIGS, Config
from tosaic.sim.rtl.build import PLAIN, Variant, simulator_library
from tosaic.sim.rtl.library import Harness

SOLVER = 4
"""What the solver knows (rtl_equivalence.py): raised when that changes, so that it is asked again."""
LATE_CYCLES = 3000
"""A mutant's program may take this much longer than twice the time."""
FIRST_CYCLES = 30_000
"""Of the programs that judge each mutant by itself."""
TOGETHER = 40
"""Mutants between two lines of records, or two calls of the solver."""
GROUP, FEW = 48, 16
"""Mutants on one machine, where most change nothing that is seen; of those that survive this, which some other one may
have hidden again and again, a few."""
RUN_CYCLES, CYCLE_BYTES = 300, 256
"""What a program costs beside its cycles: a machine is made for it, and its registers are read; and a cycle for
each CYCLE_BYTES of external memory, which are copied and hashed."""
REGISTERS_CYCLES = 15_000
"""Of what a host does with the registers alone, answers that are errors included."""
SAME_UNIT, SAME_MODULE = 3, 20
"""What a program's kills count for a mutant in the same unit and module; elsewhere 1."""


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()[:10]


class Judge:
    """Runs programs, those that killed most for their time first; each on a machine of its own, for what some read
    depends on what the ones before left."""

    def __init__(
        self,
        config: Config,
        library: pathlib.Path,
        mutants: int,
        programs: Iterable[Case],
        kept: pathlib.Path,
    ):
        """`kept`: the file of what is known of runs without a fault."""
        self._config, self._library, self._bits = config, library, active_bits(mutants)
        self.programs, self._wanted, self._active = [], [], []
        """Of programs that end: themselves (None is no program, but what a host does with the registers), what is seen,
        and the numbers of the mutants that they can show."""
        known = json.loads(kept.read_text()) if kept.exists() else {}
        here = {}
        for case in (None, *programs):
            key = f"{library.name} {self._given(case)}"
            here[key] = known.get(key) or self._watched(case)
            seen = here[key]["seen"]
            if seen["end"] != HUNG:
                self.programs.append(case)
                self._wanted.append(
                    Seen(
                        seen["end"],
                        seen["memory"],
                        *(tuple(map(tuple, seen[k])) for k in ("registers", "marks")),
                    )
                )
                self._active.append(set(here[key]["active"]))
        if here != known:
            kept.write_text(json.dumps(here))
        self._kills = [collections.Counter[str]() for _ in self.programs]
        """By unit, by module, and in all ("")."""
        self._costs = [self._cost(*pair) for pair in zip(self.programs, self._wanted, strict=True)]
        self.keys = [
            digest((self._given(case) + repr(seen)).encode())
            for case, seen in zip(self.programs, self._wanted, strict=True)
        ]
        """Of each program, by what it is and does."""

    @staticmethod
    def _cost(case: Case | None, wanted: Seen) -> int:
        if case is None:
            return REGISTERS_CYCLES
        cycles = sum(value for name, value in wanted.registers if name == "CYCLES")
        return cycles + RUN_CYCLES + case.program.memory.size // CYCLE_BYTES

    @staticmethod
    def _given(case: Case | None) -> str:
        """A digest of a program, its memory and the machine's conditions."""
        if case is None:
            return ""
        program, conditions = case.program, dataclasses.asdict(case.conditions)
        what = (program.program_address, program.program_bytes, conditions, case.max_cycles)
        before = Judge._given(case.before)
        return digest(before.encode(), repr(what).encode(), program.memory.tobytes())

    def _watched(self, case: Case | None) -> Record:
        seen, active = self._run(case, None, case.max_cycles if case else 0)
        return {"seen": dataclasses.asdict(seen), "active": active}

    @property
    def cycles(self) -> int:
        """Of all programs."""
        return sum(dict(seen.registers).get("CYCLES", 0) for seen in self._wanted)

    def _run(self, case: Case | None, mutants: Iterable[int] | None, most: int) -> tuple[Seen, list[int]]:
        """What is seen of a machine with these mutants; for None, of one without a fault, and which were active."""
        harness = Harness(self._library)
        try:
            if mutants is None:
                harness.watch_mutants()
            else:
                harness.choose_mutants(mutants, self._bits)
            if case is None:
                seen = registers_seen(harness)
            else:
                seen = case.run(harness, self._config, most)
            return seen, harness.active_mutants(self._bits)
        finally:
            harness.close()

    def _difference(self, index: int, numbers: Iterable[int]) -> str:
        """What the host sees of these mutants, all at once, in a program, that it does not see without; or nothing."""
        case, wanted = self.programs[index], self._wanted[index]
        # Of the longest of several runs on one machine.
        longest = max((value for name, value in wanted.registers if name == "CYCLES"), default=0)
        most = 2 * longest + LATE_CYCLES
        try:
            seen, _ = self._run(case, numbers, most)
        except (DeviceError, AssertionError) as error:
            # The control port does not answer, a reset does not end.
            seen = Seen(str(error))
        if seen == wanted:
            return ""
        if case is None or (seen.end, seen.memory) != (wanted.end, wanted.memory):
            return "memory"
        differing = [a[0] for a, b in zip(seen.registers, wanted.registers, strict=False) if a != b]
        return "registers: " + ", ".join(differing[:3] or ["marks"])

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

    def judge(self, mutant: Mutant, number: int, passed: set[str], cycles: int) -> tuple[str, str]:
        """How the mutant was found, SURVIVED where it was not; and by which program. `passed` has the keys of programs
        that do not show it, and gets more. Programs of `cycles` in all are run."""
        self._skip(number, passed)
        left = [index for index, key in enumerate(self.keys) if key not in passed]
        for index in sorted(left, key=lambda i: (-self._worth(i, mutant), i)):
            cycles -= self._costs[index]
            if cycles < 0:
                break
            if found := self._difference(index, [number]):
                self._count(index, mutant.unit, mutant.module)
                return found, _name(self.programs[index])
            passed.add(self.keys[index])
        return SURVIVED, ""

    def _skip(self, number: int, passed: set[str]) -> None:
        """Programs in which the mutant changes no bit do not show it."""
        passed.update(
            key for key, active in zip(self.keys, self._active, strict=True) if number not in active
        )

    def judge_together(
        self, passed: dict[int, set[str]], end: float, size: int = GROUP
    ) -> Iterator[tuple[int, str, str]]:
        """All programs that the mutants of these numbers have not passed; those that are found: number, how and by
        which program. `size` are on one machine. Short programs come first; none begins after `end`, in processor
        seconds."""
        alive = set(passed)
        for number in alive:
            self._skip(number, passed[number])
        for index in sorted(range(len(self.programs)), key=lambda i: self._costs[i]):
            if cpu_seconds() > end:
                return
            key = self.keys[index]
            left = [number for number in alive if key not in passed[number]]
            # Two that hide each other are together in some programs only.
            left.sort(key=lambda number: digest(f"{key} {number}".encode()))
            groups = [left[first : first + size] for first in range(0, len(left), size)]
            while groups:
                group = groups.pop()
                found = self._difference(index, group)
                if not found:
                    for number in group:
                        passed[number].add(key)
                elif len(group) == 1:
                    alive.remove(group[0])
                    yield group[0], found, _name(self.programs[index])
                else:
                    groups += [group[: len(group) // 2], group[len(group) // 2 :]]


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
    """Processes that judge the mutants one by one."""
    seconds: float = float("inf")
    """Processor time of each after which nothing more is begun."""

    def drawn(self, folder: pathlib.Path) -> tuple[list[Mutant], pathlib.Path]:
        """The mutants, and the simulator that has them all."""
        mutants = draw(self.config, self.count, self.seed, folder)
        mutated = mutated_verilog(self.config, mutants, folder)
        options = (*PLAIN.options, f"+define+MUTANTS={active_bits(len(mutants))}")
        variant = Variant("mutants", options, ("-DMUTANTS",), verilog=lambda _: mutated)
        return mutants, simulator_library(self.config, variant)


class Measurement:
    """A sample, the file of its records, and what judges it."""

    def __init__(self, sample: Sample, path: pathlib.Path, folder: pathlib.Path):
        self._config = sample.config
        self._path, self._folder, self._parts = path, folder, sample.parts
        self._end = cpu_seconds() + sample.seconds
        self.mutants, library = sample.drawn(folder)
        self._key = digest(netlist(sample.config, folder).read_bytes())
        self.judge = Judge(
            sample.config,
            library,
            len(self.mutants),
            cases(sample.config, sample.amount),
            path.with_suffix(".seen"),
        )
        self.judge.learn(self.known().values())

    def known(self) -> dict[str, Record]:
        """What an earlier solver called no change is asked, and judged, again."""
        records = read_records(self._path, self._key)
        again = _record(SURVIVED, "", set())
        return {
            change: record | again
            if record["how"] == EQUIVALENT and record.get("solver") != SOLVER
            else record
            for change, record in records.items()
        }

    def _write(self, found: Iterable[tuple[int, Record]], before: float) -> None:
        """Records of mutants, by number, and the processor time since `before`, a share for each."""
        found, known = list(found), self.known()
        share = (cpu_seconds() - before) / max(len(found), 1)
        with self._path.open("a") as out:
            for number, record in found:
                mutant = self.mutants[number - 1]
                own = {name: getattr(mutant, name) for name in ("unit", "module", "name", "change")}
                spent = known.get(mutant.change, {}).get("seconds", 0) + share
                out.write(
                    json.dumps(own | record | {"netlist": self._key, "seconds": round(spent, 2)}) + "\n"
                )

    def one_by_one(self, part: int) -> None:
        """Every `parts`-th of those without a record, from the first few programs."""
        known = self.known()
        order = sorted(
            range(1, len(self.mutants) + 1), key=lambda n: digest(self.mutants[n - 1].change.encode())
        )
        todo = [
            number for number in order[part :: self._parts] if self.mutants[number - 1].change not in known
        ]
        for first in range(0, len(todo), TOGETHER):
            if cpu_seconds() > self._end:
                break
            before, found = cpu_seconds(), list[tuple[int, Record]]()
            for number in todo[first : first + TOGETHER]:
                passed = set[str]()
                how, program = self.judge.judge(self.mutants[number - 1], number, passed, FIRST_CYCLES)
                found.append((number, _record(how, program, passed)))
            self._write(found, before)

    def together(self) -> None:
        """What has survived so far, by all programs that it has not passed."""
        for few in (False, True):
            known = self.known()
            self._together(
                {
                    number: set(record["passed"])
                    for number, mutant in enumerate(self.mutants, 1)
                    if (record := known.get(mutant.change))
                    and record["how"] == SURVIVED
                    and record.get("few", False) == few
                },
                few,
            )

    def again(self) -> None:
        """What has survived all else, by all programs, in small groups; what is stopped counts as not begun."""
        known = self.known()
        self._together(
            {
                number: set()
                for number, mutant in enumerate(self.mutants, 1)
                if (record := known.get(mutant.change))
                and record["how"] == SURVIVED
                and not record.get("few", False)
            },
            True,
        )

    def _together(self, passed: dict[int, set[str]], few: bool) -> None:
        before, known, left = cpu_seconds(), self.known(), dict(passed)
        for number, how, program in self.judge.judge_together(passed, self._end, FEW if few else GROUP):
            self._write([(number, _record(how, program, left.pop(number)))], before)
            before = cpu_seconds()
        whole = set(self.judge.keys)
        found = [
            (number, _record(SURVIVED, "", keys, self._asked(number, known), few))
            for number, keys in left.items()
            if not few or whole <= keys
        ]
        self._write(found, before)

    def follow(self) -> None:
        """What has survived so far, and changes no bit on which an output depends."""
        self._change_nothing(unread)

    def prove(self) -> None:
        """What is left, and is proved not to be read while it differs: the facts are those of `nano`."""
        if self._config == CONFIGS["nano"]:
            self._change_nothing(never_seen)

    def _change_nothing(self, found_by: Callable[[list[Mutant], pathlib.Path], set[Mutant]]) -> None:
        before, known = cpu_seconds(), self.known()
        left = [each for each in self.mutants if known.get(each.change, {}).get("how") == SURVIVED]
        same = found_by(left, self._folder)
        found = [
            (number, _record(EQUIVALENT, "", set()))
            for number, mutant in enumerate(self.mutants, 1)
            if mutant in same
        ]
        if found:
            self._write(found, before)

    def solve(self) -> None:
        """What has survived all programs, and was not given to the solver yet."""
        known, programs = self.known(), set(self.judge.keys)
        asked = [
            number
            for number, mutant in enumerate(self.mutants, 1)
            if (record := known.get(mutant.change))
            and record["how"] == SURVIVED
            and not self._asked(number, known)
            and programs <= set(record["passed"])
        ]
        for first in range(0, len(asked), TOGETHER):
            if cpu_seconds() > self._end:
                break
            before, numbers = cpu_seconds(), asked[first : first + TOGETHER]
            same = equivalents([self.mutants[number - 1] for number in numbers], self._folder)
            found = []
            for number in numbers:
                mutant = self.mutants[number - 1]
                how = EQUIVALENT if mutant in same else SURVIVED
                old = known[mutant.change]
                found.append((number, _record(how, "", set(old["passed"]), True, old.get("few", False))))
            self._write(found, before)

    def _asked(self, number: int, known: dict[str, Record]) -> bool:
        """Whether the solver, as it is now, had the mutant."""
        return known[self.mutants[number - 1].change].get("asked") == SOLVER

    def records(self) -> list[Record]:
        """Of the sample; OPEN where some programs, or the solver, have not run."""
        known, programs = self.known(), set(self.judge.keys)
        records = [known[mutant.change] for mutant in self.mutants if mutant.change in known]
        for record in records:
            ran = record["how"] != SURVIVED or (
                record["asked"] == SOLVER and programs <= set(record["passed"])
            )
            if not ran:
                record["how"] = OPEN
        return records


def _record(how: str, program: str, passed: set[str], asked: bool = False, few: bool = False) -> Record:
    record: Record = {"how": how, "program": program}
    if how == EQUIVALENT:
        return record | {"solver": SOLVER}
    survived: Record = {"passed": sorted(passed), "asked": SOLVER * asked, "few": few}
    return record | (survived if how == SURVIVED else {})


def measure(sample: Sample, path: pathlib.Path) -> tuple[list[Record], Judge]:
    """Judge what the records in `path` do not tell; returns those of the sample, and the judge with its programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        folder = pathlib.Path(name)
        sample.drawn(folder)
        others = [
            multiprocessing.Process(target=_part, args=(sample, path, part))
            for part in range(1, sample.parts)
        ]
        for other in others:
            other.start()
        measurement = Measurement(sample, path, folder)
        measurement.one_by_one(0)
        for other in others:
            other.join()
            if other.exitcode:
                raise RuntimeError(f"a part of the mutants ended with {other.exitcode}")
        measurement.follow()
        measurement.together()
        measurement.solve()
        measurement.prove()
        measurement.again()
        return measurement.records(), measurement.judge


def _part(sample: Sample, path: pathlib.Path, part: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tosaic-") as name:
        Measurement(sample, path, pathlib.Path(name)).one_by_one(part)


def read_records(path: pathlib.Path, key: str) -> dict[str, Record]:
    """The last one of each change of the netlist `key`; a line that was cut short counts not."""
    known = dict[str, Record]()
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            if record["netlist"] == key:
                known[record["change"]] = record
    return known


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="nano", choices=CONFIGS)
    parser.add_argument("--count", type=int, default=2300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--amount", type=int, default=1, help="programs of each family")
    parser.add_argument("--parts", type=int, default=1, help="processes")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="processor time, for each process"
    )
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
