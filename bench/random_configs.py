"""Random legal configurations, random graphs on each: golden against the accelerator.

    python bench/random_configs.py --configs 200 --graphs 5 --seed 1 --on emulator,sim

Prints every graph that a target computes wrongly or dies of, with the configuration and the seed that repeat it. Exit 1
if anything went wrong. A simulator of the RTL is built for each configuration, a minute of processor time.
"""

import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "random_graphs"))

from random_configs import random_config  # noqa: E402 (the path comes first)
from random_growth import random_graph  # noqa: E402
from random_runs import Tally, run_random  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--configs", type=int, default=20, help="number of configurations")
    parser.add_argument("--graphs", type=int, default=5, help="random graphs on each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", default="emulator", help="targets, by commas")
    chosen = parser.parse_args()
    tally, wrong = Tally(), 0
    for number in range(chosen.configs):
        config = random_config(random.Random(f"{chosen.seed} {number}"))
        for graph in range(chosen.graphs):
            seed = chosen.seed * 1_000_000 + number * chosen.graphs + graph
            try:
                g = random_graph(random.Random(seed).randint)
                run_random(g, seed, tuple(chosen.on.split(",")), config.name, tally)
            except Exception as error:  # One wrong graph must not hide others.
                wrong += 1
                again = f"--seed 0 --first {seed} --graphs 1 --on {chosen.on} --config {config.name}"
                print(
                    f"WRONG (bench/random_graphs.py {again}): {type(error).__name__}: {str(error)[:600]}",
                    flush=True,
                )
    print(
        f"{chosen.configs} configurations, {tally.graphs + wrong} graphs, seed {chosen.seed}, "
        f"golden against {chosen.on}: "
        f"{tally.ran} equal, {wrong} wrong, {tally.rejected.total()} rejected"
    )
    for reason, count in tally.rejected.most_common():
        print(f"{count:6} rejected: {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
