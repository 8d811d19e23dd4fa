"""Random graphs of all integer operators, golden against the accelerator, for as long as you like.

    python bench/random_graphs.py --minutes 30 --seed 1 --on emulator,sim [--config base]

Prints every graph that a target computes wrongly or dies of, with the seed that makes it, then how many graphs ran, of
which operators, and what the compiler rejected. Exit 1 if anything went wrong. `--first N --graphs 1` repeats graph N.
"""

import argparse
import collections
import pathlib
import random
import re
import sys
import time

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "fuzzing"), str(_TESTS / "random_graphs")]

import campaign_log  # noqa: E402 (the path comes first)
from failure_folder import keep  # noqa: E402
from random_growth import GROWTHS, random_graph  # noqa: E402
from random_jobs import MODES, add, graph_job, slow  # noqa: E402
from random_runs import Tally  # noqa: E402

from tosaic.driver.jobs import RecordFile, place_of, run_jobs  # noqa: E402

_SLOW_SECONDS = 10
"""Graphs that take longer are worth a look."""
_AHEAD = 16
"""Graphs for each process between two looks at the clock."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--graphs", type=int, default=None, help="stop after this number of graphs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--on", default="emulator", help="targets, by commas")
    parser.add_argument("--config", default="base")
    parser.add_argument(
        "--run-time", action="store_true", help="half of the parameters are inputs (EXT-DYNAMIC)"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, help="graphs at a time")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    campaign_log.add_options(parser)
    parser.add_argument("--records", type=pathlib.Path, help="keep what is done; a second run goes on")
    chosen = parser.parse_args()
    tally, wrong, number = Tally(), 0, chosen.first
    place, kept = place_of(chosen.jobs, chosen.cluster), RecordFile(chosen.records)
    started = time.monotonic()
    limit = started + 60 * chosen.minutes
    # One at a time, the clock is looked at after each.
    step = 1 if chosen.jobs == 1 and chosen.cluster is None else _AHEAD * chosen.jobs
    while time.monotonic() < limit and number - chosen.first != chosen.graphs:
        left = step if chosen.graphs is None else min(step, chosen.first + chosen.graphs - number)
        jobs = [_job(each, chosen) for each in range(number, number + left)]
        records = run_jobs(jobs, place, kept)
        for record, problem in add(tally, records):
            wrong += 1
            print(f"WRONG ({_again(record.job['seed'], chosen)}): {problem}", flush=True)
            _keep(record.job["seed"], chosen)
        for record in slow(records, _SLOW_SECONDS):
            told = f"{record.seconds['all']:.0f} s"
            print(f"SLOW ({_again(record.job['seed'], chosen)}): {told}", flush=True)
        number += left
    _print(tally, wrong, chosen)
    campaign_log.append(chosen.log, "random_graphs", tally.graphs + wrong, wrong, time.monotonic() - started)
    return 1 if wrong else 0


def _job(number: int, chosen: argparse.Namespace):
    seed = chosen.seed * 1_000_000 + number
    return graph_job(seed, chosen.on, chosen.config, mode=number % len(MODES), run_time=chosen.run_time)


def _keep(seed: int, chosen: argparse.Namespace) -> None:
    """The smallest part that fails, with a script that shows it, in a folder; as compiled by default."""
    g = random_graph(random.Random(seed).randint)
    if chosen.run_time:
        g.free_parameters()
    folder = chosen.failures / f"graph{seed}"
    keep(folder, g, seed, tuple(chosen.on.split(",")), chosen.config)
    print(f"  sh {folder / 'show.sh'}", flush=True)


def _again(seed: int, chosen: argparse.Namespace) -> str:
    """The options that repeat a graph."""
    number = seed - chosen.seed * 1_000_000
    again = f"--seed {chosen.seed} --first {number} --graphs 1 --on {chosen.on} --config {chosen.config}"
    return again + " --run-time" * chosen.run_time


def _print(tally: Tally, wrong: int, chosen: argparse.Namespace) -> None:
    graphs = tally.graphs + wrong
    print(
        f"{graphs} graphs, seed {chosen.seed}, golden against {chosen.on}, configuration {chosen.config}: "
        f"{tally.ran} equal, {wrong} wrong, {tally.rejected.total()} rejected ({tally.rejected_share:.1%})"
    )
    print(f"{tally.operators.total()} operators ran: ", end="")
    print(", ".join(f"{op} {tally.operators[op]}" for op in sorted(GROWTHS)))
    reasons: collections.Counter[str] = collections.Counter()
    for reason, count in tally.rejected.items():
        reasons[_general(reason)] += count
    for reason, count in reasons.most_common():
        print(f"{count:6} rejected: {reason}")


def _general(reason: str) -> str:
    """A reason without names and numbers."""
    reason = re.sub(r"'[^']*'|\[[-\d, ]*\]", "…", reason)
    return re.sub(r"(?<![A-Za-z0-9])\d[\d,]*|(?<=_)\d+\b", "N", reason)


if __name__ == "__main__":
    sys.exit(main())
