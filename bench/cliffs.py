"""Searches shapes, types and neighbours for layers far above what bounds them, on the emulator.

    python bench/cliffs.py [--cases 40] [--family NAME ...] [--above 1.3] [--csv FILE] [--against bench/cliffs.csv]

Lists layers that take more than `above` times the most of: products by multipliers, operators on elements by lanes, and
weights by bytes of the bus, each with the transfer of inputs and outputs; the largest first, with the unit that was
busy. `--csv` writes them; `--against` fails (exit code 1) at a layer that such a file does not list, or lists with
fewer cycles. Both must be of the same seeds, so nobody's luck fails a night.
"""

import argparse
import csv
import dataclasses
import pathlib
import sys

import numpy as np
from cliff_cases import FAMILIES, random_case

from tosaic.driver.session import Session
from tosaic.errors import Error

START_CYCLES = 600
"""Cycles of a program alone: its own instructions, parameters and latencies."""
WORSE = 1.03
"""Times the cycles of before that are a new cliff."""
WORK = ("beats", "multiplies", "computes")
"""Shares of a unit's cycles in which it works."""
COLUMNS = ("family", "seed", "ratio", "cycles", "bound", "by", "busy", "dearest", "layer")


@dataclasses.dataclass(frozen=True)
class Cliff:
    """A layer and its figures."""

    family: str
    seed: int
    ratio: float
    cycles: int
    bound: int
    by: str
    """What bounds it."""
    busy: str
    """The unit that worked most, and its share of the time."""
    dearest: str
    """The operator of the program's dearest layer."""
    layer: str

    @property
    def row(self) -> list[str]:
        values = {**dataclasses.asdict(self), "ratio": f"{self.ratio:.2f}"}
        return [str(values[name]) for name in COLUMNS]


def measured(family: str, seed: int, config: str) -> Cliff:
    """One case's figures, checked against golden."""
    case = random_case(family, seed)
    session = Session(case.graph, "emulator", config)
    random = np.random.default_rng(seed)
    feed = {
        each.name: random.integers(0, 2, each.shape).astype(bool)
        if each.numpy == np.bool_
        else random.integers(-100, 100, each.shape).astype(each.numpy)
        for each in session.inputs
    }
    session.run(feed, check=True)
    stats = session.stats
    bounds = case.bounds(session.config, stats["memory_bandwidth"])
    by = max(bounds, key=lambda name: bounds[name])
    shares = {
        unit: max((figures["cycles"].get(label, 0) for label in WORK), default=0)
        for unit, figures in stats["units"].items()
    }
    unit = max(shares, key=lambda name: shares[name])
    dearest = max(stats["layers"], key=lambda each: each["cycles"], default={"op": ""})["op"]
    bound = bounds[by] + START_CYCLES
    return Cliff(
        family,
        seed,
        stats["cycles"] / bound,
        stats["cycles"],
        round(bound),
        by,
        f"{unit} {shares[unit] / stats['cycles']:.0%}",
        dearest,
        case.name,
    )


def worse_than(before: pathlib.Path, cliffs: list[Cliff]) -> list[str]:
    """What the file does not list, or lists with fewer cycles."""
    with before.open() as file:
        known = {(row["family"], int(row["seed"])): int(row["cycles"]) for row in csv.DictReader(file)}
    found = []
    for cliff in cliffs:
        cycles = known.get((cliff.family, cliff.seed))
        if cycles is None:
            found.append(f"new: {cliff.layer}: {cliff.cycles:,} cycles, {cliff.ratio:.2f} × its bound")
        elif cliff.cycles > WORSE * cycles:
            found.append(f"worse: {cliff.layer}: {cliff.cycles:,} cycles, {cycles:,} before")
    return found


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=40, help="of each family")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--config", default="base")
    parser.add_argument("--above", type=float, default=1.3)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    chosen = parser.parse_args()
    cliffs: list[Cliff] = []
    for family in chosen.family or FAMILIES:
        ratios = []
        for seed in range(chosen.first, chosen.first + chosen.cases):
            try:
                found = measured(family, seed, chosen.config)
            except Error as error:
                print(f"FAILED {family} {seed}: {random_case(family, seed).name}: {error}", flush=True)
                continue
            ratios.append(found.ratio)
            if found.ratio > chosen.above:
                cliffs.append(found)
        above = sum(ratio > chosen.above for ratio in ratios)
        print(
            f"{family}: {above} of {len(ratios)} above {chosen.above}, median {np.median(ratios):.2f}",
            flush=True,
        )
    cliffs.sort(key=lambda each: -each.ratio)
    for cliff in cliffs:
        print("  ".join(cliff.row))
    if chosen.csv is not None:
        with chosen.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *(cliff.row for cliff in cliffs)])
    problems = worse_than(chosen.against, cliffs) if chosen.against is not None else []
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
