"""The page of what the tests see of the RTL: `python bench/sign_off.py -o docs/sign_off.md`.

Runs the measurements one after the other: coverage of lines, branches and the written model on some configurations,
mutants of the RTL and of the Python, campaigns of random programs and graphs, and the faults planted by hand. Exit 1
when a hole has no reason, a campaign finds something, or a planted fault is not seen. It says what each part took.

What is done is in build/sign_off: a part of which no file has changed since is not run again, and mutants go on where
they were stopped. `--mutant-seconds` ends them early; the page says how many were judged. `--only rtl coverage`
measures these parts alone: the others are as they are kept, or, where nothing is, as the page had them before.
"""

import argparse
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import mutation
import rtl_coverage
import rtl_mutants
import rtl_toggles
from cpu_time import cpu_seconds
from rtl_mutants_page import mutants_page, samples_page

from tosaic.hw.config import CONFIGS
from tosaic.sim.rtl.verilog import cached_verilog

ROOT = pathlib.Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "sign_off"
HEAD = """# Sign-off

`make sign-off` measures how much of the RTL the tests' programs reach and what they would notice, and writes this page.

Programs run one after the other on one machine, without a reset: random ones of every kind, random graphs, every
instruction with all its fields 0, programs that end in an error of each unit, of the bus, of the sequencer and of the
watchdog, programs with a few instructions changed, shifts by every amount, streams that are indexed, memories that are
busy, buses that hesitate, fields of all magnitudes, windows everywhere, compressed weights, loops of many turns, and
hosts that poll, write single bytes of registers, do not wait for answers, or lose patience (`bench/rtl_stimulus.py`).
Tests compare what they compute with the emulator: most in `tests/rtl/test_rtl_directed.py` and `test_rtl_hosts.py`.

- **Lines** are Verilator's blocks of statements, **branches** the sides of each `if` and each `?:`. Lanes, rows and the
  like count each, and have one row together.
- **Toggles** are those of registers (`bench/rtl_toggles.py`): bits that have been 0 and 1 while each program ran on a
  machine of its own. Verilator's own count every wire, and break off together with lines; alone they make 29 MB of C++.
- **The written model** is in `bench/functional_coverage.py`: fields of instructions by class of value, operations by
  source, type and flags, reasons to wait, errors by unit.
- **Mutants of the RTL** are drawn by Yosys from the flat, optimized netlist, a share for each unit
  (`bench/rtl_mutants.py`): a bit of a cell's port inverted, stuck, or mixed with another one. *no change* are those of
  which Yosys' SAT solver proves that no state and no input shows them, or that what they change is not read then
  (`bench/rtl_unread.py`, `bench/rtl_unseen.py`, `bench/rtl_facts.py`). The programs judge them, each on a machine of
  its own. What kills is what `make test` compares: results and errors with the emulator, and all that a host sees,
  cycles and counters as well, with what is recorded (`tests/rtl/test_rtl_recorded.py`). That is less than `make test`:
  its tests of single modules (`tests/hw`) and the proofs of `make prove` are not run on mutants.
- **Mutants of the Python** are one changed operator, constant, condition or statement each, on lines that some test
  runs (`bench/mutation.py`); the tests that run the line judge them, for some seconds each: those of `make test` that
  build no simulator and need no reference model, so the score is a lower bound. Some of these tests know the cycles and
  the programs of what they run (`tests/recorded_runs.json`). *no change* are those of which
  `bench/mutation_equivalents.toml` says why nothing can show them.
- **Campaigns** compare the emulator and the RTL on changed programs, and both with golden on random graphs.
"""


PYTHON = ("compiler/*.py", "compiler/[!iq]*/**/*.py", "sim/golden/*.py", "sim/emulator/*.py")
JUDGES = (
    "tests/compiler",
    "tests/golden",
    "tests/emulator",
    "tests/random_graphs",
    "tests/cores",
    "tests/plans",
)
"""The tests that judge mutants of the Python: those that build no simulator."""
PARTS = ["coverage", "rtl", "python", "campaigns"]
WITHOUT = "not rtl and not reference_model and not shared_models and not firmware"
TITLES = {
    r"coverage of (`\w+`)": r"## \1:",
    r"toggles of (`\w+`)": r"## Toggles of \1:",
    r"mutants of the RTL of (`\w+`)": r"## Mutants of \1:",
    "mutants of the Python": "## Mutants of golden, compiler and emulator:",
    "campaigns and planted faults": "## Campaigns",
}
"""How the titles of parts begin, by their names: regular expressions."""
RTL = ("hw", "sim", "tests/rtl", "tests/fuzzing", "tests/random_graphs", "compiler")
"""Folders with what the RTL's programs are made of."""


@dataclasses.dataclass
class Part:
    """A part of the page: its text, what is wrong, and the processor seconds that it took."""

    text: str = ""
    problems: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0


def files_digest(*patterns: str) -> str:
    """Of the contents of source files: folders from the root, or patterns of files."""
    found = hashlib.sha256()
    for pattern in patterns:
        place = ROOT / pattern
        files = place.rglob("*") if place.is_dir() else ROOT.glob(pattern)
        for path in sorted(files):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


def kept(name: str, key: str, make: Callable[[], Part], wanted: bool = True) -> Part:
    """What `make` returned when `key` was the same, from its file; else it is called. If it is not `wanted`, what there
    is of it, however old; a part without a text where there is nothing."""
    path = KEPT / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {"key": ""}
    old = known.pop("key") != key
    if old and not wanted and path.exists():
        known["text"] += f"\n(`{name}` is of an earlier state of the sources.)\n"
    if not (old and wanted):
        return Part(**known)
    print(f"{name}:", flush=True)
    before = cpu_seconds()
    part = make()
    part.seconds += cpu_seconds() - before
    print(f"{name}: {part.seconds:.0f} processor seconds", flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"key": key} | dataclasses.asdict(part)))
    return part


def called(part: Part, name: str, *command: str) -> str:
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
        part.problems.append(f"{name}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", nargs="+", default=["nano", "small"], choices=CONFIGS)
    parser.add_argument("--amount", type=int, default=3, help="programs of each family, for coverage")
    parser.add_argument("--mutants", type=int, default=2420)
    parser.add_argument(
        "--mutant-seconds", type=float, help="processor time for each kind of them, builds apart"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes for mutants of the RTL")
    parser.add_argument("--python-mutants", type=int, default=1000)
    parser.add_argument(
        "--test-seconds", type=float, default=2.5, help="of tests, for a mutant of the Python"
    )
    parser.add_argument("--programs", type=int, default=500, help="changed ones")
    parser.add_argument("--graphs", type=int, default=300, help="random ones")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help="the other parts stay as they are"
    )
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    chosen = parser.parse_args()
    parts = {f"coverage of `{name}`": _coverage(name, chosen) for name in chosen.config}
    parts[f"toggles of `{chosen.config[0]}`"] = _toggles(chosen.config[0], "coverage" in chosen.only)
    parts[f"mutants of the RTL of `{chosen.config[0]}`"] = _rtl(chosen)
    parts["mutants of the Python"] = _python(chosen)
    parts["campaigns and planted faults"] = _campaigns(chosen)
    before = chosen.output.read_text() if chosen.output.exists() else ""
    parts = {name: part if part.text else on_page(before, name) for name, part in parts.items()}
    chosen.output.write_text(page(parts))
    problems = [problem for part in parts.values() for problem in part.problems]
    print(*problems, sep="\n")
    return int(bool(problems))


def page(parts: dict[str, Part]) -> str:
    """The page, with what each part took."""
    rows = [f"| {name} | {part.seconds:.0f} |" for name, part in parts.items()]
    rows.append(f"| **all** | {sum(part.seconds for part in parts.values()):.0f} |")
    table = ["## What it took", "", "| part | processor seconds |", "|---|--:|", *rows]
    return "\n".join([HEAD, *(part.text for part in parts.values()), "\n".join(table)]) + "\n"


def on_page(text: str, name: str) -> Part:
    """A part as a page has it, with what it took."""
    title = next(found.expand(TITLES[each]) for each in TITLES if (found := re.fullmatch(each, name)))
    section = re.search(rf"^{re.escape(title)}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    took = re.search(rf"^\| {re.escape(name)} \| (\d+) \|$", text, re.MULTILINE)
    if not section:
        return Part(f"## {name}\n\nNot run.\n")
    return Part(section[0].rstrip("\n") + "\n", seconds=int(took[1]) if took else 0)


def _coverage(name: str, chosen: argparse.Namespace) -> Part:
    def measured() -> Part:
        text, problems = rtl_coverage.page(rtl_coverage.run(CONFIGS[name], chosen.amount), CONFIGS[name])
        return Part(text, problems)

    sources = files_digest(*RTL, "bench/rtl_[cs]*", "bench/functional_coverage*")
    return kept(f"coverage-{name}", f"{sources} {chosen.amount}", measured, "coverage" in chosen.only)


def _toggles(name: str, wanted: bool) -> Part:
    """Of a configuration's registers, by the programs that judge mutants."""
    config = CONFIGS[name]

    def measured() -> Part:
        modules = rtl_toggles.modules_of(cached_verilog(config).read_text())
        return Part(rtl_toggles.toggles_page(name, rtl_toggles.toggled(config, 1), modules))

    return kept(f"toggles-{name}", files_digest(*RTL, "bench/rtl_[ents]*"), measured, wanted)


def _rtl(chosen: argparse.Namespace) -> Part:
    """Mutants of the first configuration: what is not judged yet, and the score of all that are."""
    config = CONFIGS[chosen.config[0]]
    limit = {} if chosen.mutant_seconds is None else {"seconds": chosen.mutant_seconds}
    sample = rtl_mutants.Sample(config, chosen.mutants, parts=chosen.jobs, **limit)

    def measured() -> Part:
        records, judge = rtl_mutants.measure(sample, KEPT / "rtl_mutants.jsonl")
        text = mutants_page(config.name, records, len(judge.programs), judge.cycles)
        spent = sum(record["seconds"] for record in records)
        took = f"Judging them took {spent:,.0f} processor seconds in all."
        return Part("\n".join([text, took, "", samples_page()]))

    sources = files_digest(*RTL, "bench/rtl_[emns]*")
    return kept(
        "rtl-mutants", f"{sources} {dataclasses.replace(sample, parts=1)}", measured, "rtl" in chosen.only
    )


def _python(chosen: argparse.Namespace) -> Part:
    """Contexts of the tests, then the mutants: their score by folder, and what survived."""
    count, seconds = chosen.python_mutants, chosen.test_seconds
    records = KEPT / "mutants.jsonl"
    judges = ("compiler", "sim", *JUDGES, "tests/plugins", "tests/recorded_runs.json")
    sources = files_digest(*judges, "bench/mutation*")
    wanted = "python" in chosen.only
    before = [
        kept(
            f"contexts-{folder.rpartition('/')[2]}",
            lines_key(folder),
            functools.partial(_contexts, folder),
            wanted,
        )
        for folder in JUDGES
    ]

    def measured() -> Part:
        part = Part()
        files = ("--contexts", *map(_lines_file, JUDGES), "--seconds", *map(_seconds_file, JUDGES))
        sample = ("--count", str(count), "--seed", "1", "--most-seconds", str(seconds), "-o", str(records))
        limit = () if chosen.mutant_seconds is None else ("--limit-seconds", str(chosen.mutant_seconds))
        called(part, "mutants of the Python", "bench/mutation.py", *PYTHON, *files, *sample, *limit)
        lines = mutation.tests_of_lines([*map(_lines_file, JUDGES)])
        drawn = mutation.draw([*PYTHON], lines, count, 1)
        part.text = mutation_page(mutation.Judge(drawn, lines, {}, seconds, records).found)
        return part

    part = kept("python-mutants", f"{sources} {count} {seconds} {chosen.mutant_seconds}", measured, wanted)
    return Part(
        part.text,
        [problem for each in (*before, part) for problem in each.problems],
        sum(each.seconds for each in (*before, part)),
    )


def lines_key(folder: str) -> str:
    """Of what decides which lines the tests of a folder run."""
    return files_digest("compiler", "sim", folder, "bench/mutation_contexts*")


def _lines_file(folder: str) -> str:
    return str(KEPT / f"{folder.rpartition('/')[2]}.contexts")


def _seconds_file(folder: str) -> str:
    return str(KEPT / f"{folder.rpartition('/')[2]}.seconds")


def _contexts(folder: str) -> Part:
    """Which test of a folder runs which line, in files."""
    part, files = Part(), (_lines_file(folder), _seconds_file(folder))
    KEPT.mkdir(parents=True, exist_ok=True)
    for path in files:
        pathlib.Path(path).unlink(missing_ok=True)
    plugin = ("-p", "bench.mutation_contexts", "--contexts", files[0], "--cpu-durations", files[1])
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, folder, "-k", WITHOUT)
    called(part, f"tests of {folder}", *command)
    return part


def folder_of(record: mutation.Record) -> str:
    """A file's folder; the files of the cycle model count apart, for tests of the RTL judge them."""
    is_timing = record["file"].startswith("sim/emulator/timing")
    return "sim/emulator/timing" if is_timing else record["file"].rpartition("/")[0]


def mutation_page(records: list[mutation.Record]) -> str:
    """A table by folder, and the survivors."""
    out = [f"## Mutants of golden, compiler and emulator: {len(records)}", ""]
    out += ["| files | mutants | killed | no change | survived | score |", "|---|--:|--:|--:|--:|--:|"]
    for folder in (*sorted({folder_of(record) for record in records}), ""):
        own = [record["by"] for record in records if folder in (folder_of(record), "")]
        killed, survived = own.count(mutation.KILLED), own.count(mutation.SURVIVED)
        equal = own.count(mutation.EQUIVALENT)
        name = f"`{folder}`" if folder else "**all**"
        share = f"{killed / max(killed + survived, 1):.1%}"
        out.append(f"| {name} | {killed + survived + equal} | {killed} | {equal} | {survived} | {share} |")
    out += ["", "The score is that of the mutants that change something.", ""]
    for title, by in (("Survivors", mutation.SURVIVED), ("No change", mutation.EQUIVALENT)):
        out += [f"{title}:", "", *sorted(line_of(record) for record in records if record["by"] == by), ""]
    return "\n".join(out)


def line_of(record: mutation.Record) -> str:
    return f"- `{record['mutant']}`" + (f": {record['reason']}" if record.get("reason") else "")


def _campaigns(chosen: argparse.Namespace) -> Part:
    programs, graphs = chosen.programs, chosen.graphs
    sources = files_digest(*RTL, "bench/hostile_programs.py", "bench/random_graphs.py")
    key, wanted = f"{sources} {programs} {graphs}", "campaigns" in chosen.only
    return kept("campaigns", key, lambda: _campaigns_run(programs, graphs), wanted)


def _campaigns_run(programs: int, graphs: int) -> Part:
    part = Part()
    changed = called(part, "changed programs", "bench/hostile_programs.py", "--programs", str(programs))
    random = called(
        part,
        "random graphs",
        *("bench/random_graphs.py", "--minutes", "600", "--graphs", str(graphs)),
        *("--on", "emulator,sim", "--config", "nano"),
    )
    planted = called(
        part, "planted faults", "-m", "pytest", "-q", "-m", "", "tests/rtl/test_rtl_planted_faults.py"
    )
    lines = [line for line in random.splitlines() if "rejected" not in line]
    part.text = "\n".join(
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
    return part


if __name__ == "__main__":
    sys.exit(main())
