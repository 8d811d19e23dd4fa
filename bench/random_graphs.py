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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "random_graphs"))

from random_growth import GROWTHS, random_graph  # noqa: E402 (the path comes first)
from random_runs import Tally, run_random  # noqa: E402

_MODES = ({}, {"optimize": False}, {"keep_layers": True}, {"optimize": False, "keep_layers": True})

_SLOW_SECONDS = 10
"""Graphs that take longer are worth a look."""


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
    chosen = parser.parse_args()
    tally, wrong, number = Tally(), 0, chosen.first
    limit = time.monotonic() + 60 * chosen.minutes
    while time.monotonic() < limit and number - chosen.first != chosen.graphs:
        seed, started = chosen.seed * 1_000_000 + number, time.process_time()
        again = f"--seed {chosen.seed} --first {number} --graphs 1 --on {chosen.on} --config {chosen.config}"
        again += " --run-time" * chosen.run_time
        try:
            g = random_graph(random.Random(seed).randint)
            if chosen.run_time:
                g.free_parameters()
            targets = tuple(chosen.on.split(","))
            run_random(g, seed, targets, chosen.config, tally, **_MODES[number % len(_MODES)])
        except (
            Exception
        ) as error:  # What goes wrong with one graph must not hide what goes wrong with others.
            wrong += 1
            print(
                f"WRONG ({again}): {type(error).__name__}: {' '.join(str(error).split())[:600]}", flush=True
            )
        seconds = time.process_time() - started
        if seconds > _SLOW_SECONDS:
            print(f"SLOW ({again}): {seconds:.0f} s", flush=True)
        number += 1
    _print(tally, wrong, chosen)
    return 1 if wrong else 0


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
