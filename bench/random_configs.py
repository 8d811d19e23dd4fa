"""Random legal configurations, random graphs on each: golden against the accelerator.

    python bench/random_configs.py --configs 200 --graphs 5 --seed 1 --on emulator,sim

Prints every graph that a target computes wrongly or dies of, with the configuration and the seed that repeat it. Exit 1
if anything went wrong: each failure leaves a folder with the sizes and the operators that it takes, and a script. A
simulator of the RTL is built for each configuration, a minute of processor time.
"""

import argparse
import pathlib
import random
import sys
import time

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(_TESTS / "fuzzing"), str(_TESTS / "random_graphs")]

import campaign_log  # noqa: E402 (the path comes first)
from failed_case import leave  # noqa: E402
from failure_folder import keep  # noqa: E402
from legal_configs import random_config, smaller_config  # noqa: E402
from random_growth import random_graph  # noqa: E402
from random_jobs import add, config_case, graph_job  # noqa: E402
from random_runs import Tally  # noqa: E402

from tosaic.driver.jobs import RecordFile, place_of, run_jobs  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--configs", type=int, default=20, help="number of configurations")
    parser.add_argument("--graphs", type=int, default=5, help="random graphs on each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", default="emulator", help="targets, by commas")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="graphs at a time")
    parser.add_argument("--cluster", help="address of a Dask scheduler whose workers run them")
    parser.add_argument("--records", type=pathlib.Path, help="keep what is done; a second run goes on")
    campaign_log.add_options(parser)
    chosen = parser.parse_args()
    started = time.monotonic()
    tally, jobs = Tally(), []
    for number in range(chosen.configs):
        config = random_config(random.Random(f"{chosen.seed} {number}")).name
        first = chosen.seed * 1_000_000 + number * chosen.graphs
        jobs += [graph_job(first + graph, chosen.on, config) for graph in range(chosen.graphs)]
    found = run_jobs(jobs, place_of(chosen.jobs, chosen.cluster), RecordFile(chosen.records))
    problems = add(tally, found)
    wrong = len(problems)
    for record, problem in problems:
        again = f"--seed 0 --first {record.job['seed']} --graphs 1 --on {chosen.on} --config {record.job['config']}"
        print(f"WRONG (bench/random_graphs.py {again}): {problem}", flush=True)
        _keep(record.job["seed"], chosen.on, record.job["config"], chosen.failures)
    print(
        f"{chosen.configs} configurations, {tally.graphs + wrong} graphs, seed {chosen.seed}, "
        f"golden against {chosen.on}: "
        f"{tally.ran} equal, {wrong} wrong, {tally.rejected.total()} rejected"
    )
    for reason, count in tally.rejected.most_common():
        print(f"{count:6} rejected: {reason}")
    graphs = tally.graphs + wrong
    campaign_log.append(chosen.log, "random_configs", graphs, wrong, time.monotonic() - started)
    return 1 if wrong else 0


def _keep(seed: int, targets: str, config: str, failures: pathlib.Path) -> None:
    """The sizes that it takes, and the smallest part of the graph that fails with them."""
    folder = failures / f"config{seed}"
    case = smaller_config(config_case(seed, targets, config))
    print(f"  sh {leave(folder, case)}", flush=True)
    g = random_graph(random.Random(seed).randint)
    keep(folder / "graph", g, seed, tuple(targets.split(",")), case.settings["config"])


if __name__ == "__main__":
    sys.exit(main())
