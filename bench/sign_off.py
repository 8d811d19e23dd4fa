"""The page of what the tests see of the RTL: `python bench/sign_off.py -o docs/sign_off.md`.

Runs the measurements one after the other: coverage of lines, branches and the written model on some configurations,
mutants of the RTL and of the Python, campaigns of random programs and graphs, and the faults planted by hand. Exit 1
when a hole has no reason, a campaign finds something, or a planted fault is not seen. It says what each part took.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys

import mutation
import rtl_coverage
import rtl_mutants

from tosaic.hw.config import CONFIGS

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Sign-off

`make sign-off` measures how much of the RTL the tests' programs reach and what they would notice, and writes this page.

Programs run one after the other on one machine, without a reset: random ones of every kind, random graphs, every
instruction with all its fields 0, programs that end in an error of each unit, of the bus, of the sequencer and of the
watchdog, programs with a few instructions changed, shifts by every amount, streams that are indexed, memories that are
busy, and buses that hesitate (`bench/rtl_stimulus.py`). Other tests compare what they compute with the emulator.

- **Lines** are Verilator's blocks of statements, **branches** the sides of each `if` and each `?:`. Lanes, rows and the
  like count each, and have one row together. Toggles are not measured.
- **The written model** is in `bench/functional_coverage.py`: fields of instructions by class of value, operations by
  source, type and flags, reasons to wait, errors by unit.
- **Mutants of the RTL** are drawn by Yosys from the flat, optimized netlist, a share for each unit
  (`bench/rtl_mutants.py`): a bit of a cell's port inverted, stuck, or mixed with another one. *no change* are those of
  which Yosys' SAT solver proves that no state and no input shows them.
- **Mutants of the Python** are one changed operator, constant, condition or statement each, on lines that some test
  runs (`bench/mutation.py`); the tests that run the line judge them, for a few seconds each.
- **Campaigns** compare the emulator and the RTL on changed programs, and both with golden on random graphs.
"""


PYTHON = ("compiler/*.py", "compiler/[!iq]*/**/*.py", "sim/golden/*.py", "sim/emulator/*.py")
JUDGES = ("tests/compiler", "tests/golden", "tests/emulator")
"""The tests that judge mutants of the Python: those that build no simulator."""
WITHOUT = "not rtl and not reference_model and not shared_models"


def cpu_seconds() -> float:
    """Of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Page:
    """Sections, and what each took."""

    def __init__(self) -> None:
        self.sections, self.times, self.problems = [HEAD], list[tuple[str, float]](), list[str]()
        self._before = cpu_seconds()

    def add(self, name: str, text: str) -> None:
        self.sections.append(text)
        now = cpu_seconds()
        self.times.append((name, now - self._before))
        self._before = now

    def text(self) -> str:
        rows = [f"| {name} | {seconds:.0f} |" for name, seconds in self.times]
        rows.append(f"| **all** | {sum(seconds for _, seconds in self.times):.0f} |")
        table = ["## What it took", "", "| part | processor seconds |", "|---|--:|", *rows]
        return "\n".join([*self.sections, "\n".join(table)]) + "\n"


def called(page: Page, name: str, *command: str) -> str:
    """What a command of this folder prints; a problem when it fails."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        page.problems.append(f"{name}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", nargs="+", default=["nano", "small"], choices=CONFIGS)
    parser.add_argument("--amount", type=int, default=3, help="programs of each family, for coverage")
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument(
        "--mutant-seconds", type=float, default=900, help="processor time for them, builds apart"
    )
    parser.add_argument("--python-mutants", type=int, default=300)
    parser.add_argument("--test-seconds", type=float, default=3, help="of tests, for a mutant of the Python")
    parser.add_argument("--programs", type=int, default=500, help="changed ones")
    parser.add_argument("--graphs", type=int, default=300, help="random ones")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    chosen = parser.parse_args()
    page = Page()
    for name in chosen.config:
        section, unexplained = rtl_coverage.page(
            rtl_coverage.run(CONFIGS[name], chosen.amount), CONFIGS[name]
        )
        page.problems += unexplained
        page.add(f"coverage of `{name}`", section)
    records = ROOT / "build" / "rtl_mutants.jsonl"
    mutated = CONFIGS[chosen.config[0]]
    judge = rtl_mutants.measure(mutated, chosen.mutants, 1, 1, chosen.mutant_seconds, records)
    page.add(
        "mutants of the RTL",
        rtl_mutants.mutants_page(
            mutated.name, rtl_mutants.read_records(records), len(judge.programs), judge.cycles
        ),
    )
    page.add("mutants of the Python", _python(page, chosen.python_mutants, chosen.test_seconds))
    page.add("campaigns and planted faults", _campaigns(page, chosen.programs, chosen.graphs))
    chosen.output.write_text(page.text())
    for problem in page.problems:
        print(problem)
    return int(bool(page.problems))


def _python(page: Page, count: int, seconds: float) -> str:
    """Contexts of the tests, then the mutants: their score by folder, and what survived."""
    contexts, spent, records = (
        str(ROOT / "build" / name) for name in ("contexts", "seconds", "mutants.jsonl")
    )
    for path in (contexts, spent, records):
        pathlib.Path(path).unlink(missing_ok=True)
    plugin = ("-p", "bench.mutation_contexts", "--contexts", contexts, "--cpu-durations", spent)
    called(page, "contexts", "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *JUDGES, "-k", WITHOUT)
    chosen = ("--count", str(count), "--seed", "1", "--most-seconds", str(seconds), "-o", records)
    files = ("--contexts", contexts, "--seconds", spent)
    called(page, "mutants of the Python", "bench/mutation.py", *PYTHON, *files, *chosen)
    return mutation_page([json.loads(line) for line in pathlib.Path(records).read_text().splitlines()])


def mutation_page(records: list[dict[str, str]]) -> str:
    """A table by folder, and the survivors."""
    out = [f"## Mutants of golden, compiler and emulator: {len(records)}", ""]
    out += ["| folder | mutants | killed | survived | score |", "|---|--:|--:|--:|--:|"]
    for folder in ("sim/golden", "sim/emulator", "compiler", ""):
        own = [record["by"] for record in records if record["file"].startswith(folder)]
        killed, survived = own.count(mutation.KILLED), own.count(mutation.SURVIVED)
        name = f"`{folder}`" if folder else "**all**"
        share = f"{killed / max(killed + survived, 1):.1%}"
        out.append(f"| {name} | {killed + survived} | {killed} | {survived} | {share} |")
    survivors = sorted(record["mutant"] for record in records if record["by"] == mutation.SURVIVED)
    out += ["", "Survivors:", "", *(f"- `{mutant}`" for mutant in survivors), ""]
    return "\n".join(out)


def _campaigns(page: Page, programs: int, graphs: int) -> str:
    changed = called(page, "changed programs", "bench/hostile_programs.py", "--programs", str(programs))
    random = called(
        page,
        "random graphs",
        *("bench/random_graphs.py", "--minutes", "600", "--graphs", str(graphs)),
        *("--on", "emulator,sim", "--config", "nano"),
    )
    planted = called(
        page, "planted faults", "-m", "pytest", "-q", "-m", "", "tests/rtl/test_rtl_planted_faults.py"
    )
    lines = [line for line in random.splitlines() if "rejected" not in line]
    return "\n".join(
        [
            "## Campaigns",
            "",
            f"`python bench/hostile_programs.py --programs {programs}`:",
            "",
            *(f"    {line}" for line in changed.splitlines()),
            "",
            f"`python bench/random_graphs.py --graphs {graphs} --on emulator,sim --config nano`:",
            "",
            *(f"    {line}" for line in lines),
            "",
            "Faults planted by hand (`tests/rtl/test_rtl_planted_faults.py`; [proofs.md](proofs.md) has others):",
            "",
            f"    {planted.strip().splitlines()[-1] if planted.strip() else 'not run'}",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
