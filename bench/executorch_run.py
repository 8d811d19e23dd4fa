"""Runs the collected graphs of ExecuTorch's tests on a target and writes docs/records/executorch.md.

`python bench/executorch_run.py --on emulator` bakes what Arm's reference model computes, runs every graph of
`build/executorch/suite` that has no result yet (bench/executorch_graphs.py collects them) and writes the page anew from
all results. Results are kept by target, configuration and graph, so an interrupted run goes on where it stopped;
`--again` forgets those that did not pass.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import re
import subprocess

from commits import dated
from executorch_graphs import read_records

from tosaic.driver import conformance as suite
from tosaic.driver.conformance import ConformanceCase, Verdict
from tosaic.driver.conformance.page import general_reason
from tosaic.driver.jobs import LocalProcesses
from tosaic.driver.replacing import replacing
from tosaic.errors import InputError

HEAD = """# ExecuTorch's own tests

The wheel of ExecuTorch brings the tests of Arm's backend: small networks of every operator, and models, that its
quantizer and TOSA backend lower to TOSA. `make executorch` runs those named `tosa_INT`, keeps the integer graphs that
they write with the inputs they give, and runs each on Tosaic: a graph *runs* when every output is, bit for bit, what
Arm's reference model computes. Refused graphs are listed with the operator and the reason, wrong ones by name.
"""
CHUNK = 16
"""Tests between two writes of the results."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a graph: a verdict of the suite's, or `reference` when the reference model does not run it."""

    case: str
    verdict: str
    reason: str
    commit: str = ""
    """Commit of the repository when it ran."""


def main() -> None:
    """Bakes, runs, and writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/executorch"))
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/records/executorch.md"))
    parser.add_argument(
        "--on", choices=("golden", "emulator", "sim"), help="without it, only the page is written"
    )
    parser.add_argument("--config", default="base")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, help="number of graphs, drawn evenly from all files of tests")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of one graph")
    parser.add_argument("--again", action="store_true", help="run again what did not pass")
    options = parser.parse_args()
    if options.on:
        cases = suite.find_cases(options.folder / "suite")
        _run(suite.choose(cases, [], options.sample, seed=0), options)
    with replacing(options.page) as scratch:
        scratch.write_text(page(options.folder))


def _run(cases: list[ConformanceCase], options: argparse.Namespace) -> None:
    results = options.folder / "results" / f"{options.on}-{options.config}.jsonl"
    results.parent.mkdir(exist_ok=True)
    known = [each for each in outcomes(results) if not (options.again and each.verdict != Verdict.PASS.value)]
    results.write_text("".join(_line(each) for each in known))
    done = {each.case for each in known}
    waiting = [case for case in cases if key_of(case) not in done]
    print(f"{options.on}, {options.config}: {len(cases)} graphs, {len(waiting)} to run", flush=True)
    commit = _commit()
    for start in range(0, len(waiting), CHUNK):
        ready, found = [], []
        for case in waiting[start : start + CHUNK]:
            try:
                suite.bake([case], limit_seconds=options.seconds)
                ready.append(case)
            except InputError as error:
                said = str(error).removeprefix(f"{case.folder}: ")
                found.append(Outcome(key_of(case), "reference", said, commit))
        for result in suite.run_cases(
            ready, options.on, options.config, LocalProcesses(options.jobs, options.seconds)
        ):
            found.append(Outcome(key_of(result.case), result.verdict.value, result.reason, commit))
        with results.open("a") as file:
            file.writelines(map(_line, found))
        for each in found:
            if each.verdict != Verdict.PASS.value:
                print(f"{each.verdict}: {each.case}: {each.reason}", flush=True)


def _commit() -> str:
    """Returns the working tree's commit, short; nothing where there is none."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def key_of(case: ConformanceCase) -> str:
    """File of tests and name of the graph."""
    return f"{case.operator}/{case.name}"


def outcomes(results: pathlib.Path) -> list[Outcome]:
    """The outcomes in a file; none if there is no file."""
    lines = results.read_text().splitlines() if results.is_file() else []
    return [Outcome(**json.loads(line)) for line in lines]


def _line(outcome: Outcome) -> str:
    return json.dumps(dataclasses.asdict(outcome)) + "\n"


# --- the page


def page(folder: pathlib.Path) -> str:
    """docs/records/executorch.md, from the records of the tests and the results by target."""
    records = [
        (file.stem, record)
        for file in sorted((folder / "records").glob("*.jsonl"))
        for record in read_records(file)
    ]
    graphs = sum(len(record["graphs"]) for _, record in records)
    results = {file.stem: outcomes(file) for file in sorted((folder / "results").glob("*.jsonl"))}
    lines = [HEAD, *_summary(len(records), graphs, results), "", "## By test function", ""]
    lines += _table(records, results)
    for title, found in results.items():
        lines += ["", f"## Not run on {title.replace('-', ', configuration ', 1)}", "", *_failures(found)]
    lines += ["", "## Tests that write no integer graph", "", *_without_graphs(records)]
    return "\n".join(lines) + "\n"


def _summary(tests: int, graphs: int, results: dict[str, list[Outcome]]) -> list[str]:
    lines = [f"{tests:,} tests were run, which wrote {graphs:,} integer graphs.", ""]
    lines += [
        "| target | graphs | run | refused | wrong | not run by the reference model | commit, day |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for title, found in results.items():
        counts = collections.Counter(_kind(each) for each in found)
        cells = [len(found), counts["run"], counts["refused"], counts["wrong"], counts["reference"]]
        commits = ", ".join(
            sorted({dated(each.commit) for each in found if each.commit and _kind(each) != "reference"})
        )
        lines.append(f"| {title} | {' | '.join(f'{cell:,}' for cell in cells)} | {commits} |")
    return lines


def _kind(outcome: Outcome) -> str:
    kinds = {"pass": "run", "rejected": "refused", "reference": "reference"}
    return kinds.get(outcome.verdict, "wrong")


def _table(records: list[tuple[str, dict]], results: dict[str, list[Outcome]]) -> list[str]:
    """A row per test function: tests, graphs, and how many of these run on each target."""
    tests: collections.Counter[str] = collections.Counter(
        record["test"].split("[")[0] for _, record in records
    )
    graphs: collections.Counter[str] = collections.Counter()
    for _, record in records:
        graphs[record["test"].split("[")[0]] += len(record["graphs"])
    verdicts = {title: collections.Counter() for title in results}
    totals = {title: collections.Counter() for title in results}
    for title, found in results.items():
        for each in found:
            function = function_of(each.case)
            totals[title][function] += 1
            verdicts[title][function] += _kind(each) == "run"
    head = ["test", "tests", "graphs", *results]
    lines = [f"| {' | '.join(head)} |", f"|---{'|---:' * (len(head) - 1)}|"]
    for function in sorted(tests):
        cells = [tests[function], graphs[function]]
        parts = [
            f"{verdicts[title][function]} of {totals[title][function]}" if totals[title][function] else ""
            for title in results
        ]
        lines.append(f"| `{function}` | {' | '.join([*map(str, cells), *parts])} |")
    return lines


def function_of(case: str) -> str:
    """The test function that a graph's key comes from."""
    return re.split(r"\[|\.\d+$", case.split("/", 1)[1])[0]


def _failures(found: list[Outcome]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if _kind(each) != "run":
            groups.setdefault((_kind(each), general_reason(each.reason)), []).append(each.case)
    if not groups:
        return ["Every graph runs."]
    return [
        f"- {kind}, {len(names)}: {reason}: {', '.join(f'`{name}`' for name in sorted(names))}"
        for (kind, reason), names in sorted(groups.items())
    ]


def _without_graphs(records: list[tuple[str, dict]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for _, record in records:
        if not record["graphs"]:
            said = record["reason"] or "it hands no integer graph to the reference model"
            groups.setdefault(f"{record['outcome']}: {general_reason(said)[:160]}", []).append(record["test"])
    if not groups:
        return ["There is none."]
    return [
        f"- {reason}: {', '.join(f'`{name}`' for name in sorted(names))}"
        for reason, names in sorted(groups.items())
    ]


if __name__ == "__main__":
    main()
