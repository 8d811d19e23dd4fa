"""Certifies many TOSA graphs, the smallest first, and says what came of them.

    python bench/certify_graphs.py build/executorch/suite --records build/certified/executorch.jsonl
    python bench/certify_graphs.py --random 2000 --config base,nano --records build/certified/random.jsonl

Graphs are .tosa files, all in a folder, or those of bench/random_graphs.py. A line of JSON is kept for each, with the
commit; a second run goes on, with `--again` also with what was not EQUAL. Exit 1 if a graph is not EQUAL.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_HERE = pathlib.Path(__file__).resolve().parent
_RANDOM = _HERE.parent / "tests" / "random_graphs", _HERE.parent / "tests" / "fuzzing"
sys.path[:0] = map(str, _RANDOM)

from random_growth import random_graph  # noqa: E402 (the path comes first)

import tosaic  # noqa: E402
from tosaic.compiler.build import compile_graph  # noqa: E402
from tosaic.compiler.ir import Graph, read_tosa  # noqa: E402
from tosaic.driver.configuration import find_config  # noqa: E402
from tosaic.driver.jobs import Done, Job, JobFunction, LocalProcesses  # noqa: E402

WORK = JobFunction("certify_graphs:certify_graph", (_HERE, *_RANDOM))
FIRST_SEED = 1_000_000
"""The graphs of bench/random_graphs.py --seed 1."""
NOT_COMPILED = "NOT COMPILED"


def main() -> int:
    """Certifies what has no line yet, and counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("graphs", nargs="*", type=pathlib.Path, help=".tosa files, or folders of them")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="random graphs")
    parser.add_argument("--first", type=int, default=0, help="number of the first random graph")
    parser.add_argument("--config", default="base", help="configurations, by commas")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of one graph")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="graphs at a time")
    parser.add_argument("--records", type=pathlib.Path, required=True, help="the file of lines")
    parser.add_argument("--again", action="store_true", help="do again what was not EQUAL")
    chosen = parser.parse_args()
    tasks = dict(_tasks(chosen))
    chosen.records.parent.mkdir(parents=True, exist_ok=True)
    found = read_lines(chosen.records)
    waiting = [
        (key, job)
        for key, job in tasks.items()
        if key not in found or chosen.again and found[key]["verdict"] != "EQUAL"
    ]
    print(f"{len(tasks)} graphs, {len(waiting)} to certify", flush=True)
    commit = _commit()
    for record in LocalProcesses(chosen.jobs, chosen.seconds).run(waiting) if waiting else ():
        result = record.result or {"verdict": "FAILED", "reason": record.failure}
        line = {"graph": record.key, **result, "commit": commit}
        found[record.key] = line
        with chosen.records.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if line["verdict"] != "EQUAL":
            print(f"{line['verdict']}: {record.key}: {line['reason']}", flush=True)
    return _counted([found[key] for key in tasks if key in found])


def _tasks(chosen: argparse.Namespace) -> Iterator[tuple[str, Job]]:
    """(name, job) of each graph on each configuration."""
    files = [(root, file) for root in chosen.graphs for file in _files(root)]
    files.sort(key=lambda each: each[1].stat().st_size)
    for config in chosen.config.split(","):
        for root, file in files:
            name = file.relative_to(root).as_posix() if root.is_dir() else file.name
            yield f"{config} {name.removesuffix('/test.tosa')}", Job(WORK, file, config)
        for number in range(chosen.first, chosen.first + chosen.random):
            yield f"{config} random {number}", Job(WORK, None, config, seed=FIRST_SEED + number)


def _files(root: pathlib.Path) -> Sequence[pathlib.Path]:
    return sorted(root.rglob("*.tosa")) if root.is_dir() else [root]


def certify_graph(job: Job) -> Done:
    """What a certificate says of a graph."""
    graph: Graph = (
        read_tosa(job.model) if job.model is not None else random_graph(random.Random(job.seed).randint).graph
    )
    try:
        program = compile_graph(graph, find_config(job.config))
    except tosaic.UnsupportedError as error:
        return Done({"verdict": NOT_COMPILED, "reason": str(error)})
    done = tosaic.certify(graph, program, keyed=False)
    place = f" ({done.place.layer}: {done.place.instruction})" if done.place else ""
    told: dict[str, Any] = {"verdict": done.verdict, "reason": done.reason + place, "seconds": done.seconds}
    told |= {"log2_error": round(done.log2_error, 1), "axioms": done.axioms, "lemmas": done.lemmas}
    return Done({**told, "assumptions": sum(done.assumptions.values())})


def read_lines(records: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The last line of each graph; one that a killed run left half-written is cut off."""
    if not records.is_file():
        return {}
    whole = records.read_text().rpartition("\n")[0]
    os.truncate(records, len(f"{whole}\n".encode()) if whole else 0)
    return {line["graph"]: line for line in map(json.loads, whole.splitlines())}


def _commit() -> str:
    command = ["git", "-C", str(_HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _counted(lines: Sequence[dict[str, Any]]) -> int:
    """Prints the verdicts by configuration, and the reasons of those that are not EQUAL."""
    counts = collections.Counter((line["graph"].split()[0], line["verdict"]) for line in lines)
    for (config, verdict), count in sorted(counts.items()):
        print(f"{config}: {verdict} {count}")
    worst = max((line["log2_error"] for line in lines if line["verdict"] == "EQUAL"), default=0.0)
    print(f"largest error 2^{worst}")
    bad = [line for line in lines if line["verdict"] not in ("EQUAL", NOT_COMPILED)]
    for line in bad:
        print(f"{line['verdict']}: {line['graph']}: {line['reason']}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
