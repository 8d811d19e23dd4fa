"""Damaged ONNX models against the importer, for as long as you like.

    python bench/onnx_fuzz.py --minutes 10 --seed 1

Models of the package's node tests are changed in fields and in bytes. Each must become a graph or end in an error
of one line. The address space is limited, so that a model that makes the importer take memory is found too. Prints
what became of the inputs and the slowest of them; exit 1 if anything else happened.
"""

import argparse
import collections
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers"))

from onnx_mutations import run_mutations  # noqa: E402 (the path comes first)

ROUND = 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=3, help="limit of the address space in GiB")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    end, number = time.monotonic() + 60 * chosen.minutes, 0
    inputs = accepted = wrong = 0
    refused: collections.Counter[str] = collections.Counter()
    slowest, slowest_name = 0.0, ""
    while time.monotonic() < end:
        seed = chosen.seed * 1_000_000 + number
        found = run_mutations(ROUND, seed)
        for line in found.wrong:
            print(f"seed {seed}, {line}", flush=True)
        inputs, accepted, wrong = inputs + found.inputs, accepted + found.accepted, wrong + len(found.wrong)
        refused += found.refused
        if found.slowest_seconds > slowest:
            slowest, slowest_name = found.slowest_seconds, f"seed {seed}, {found.slowest}"
        number += 1
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in refused.most_common())
    print(f"{inputs:,} inputs: {accepted:,} imported, refused: {reasons}; {wrong} wrong")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the slowest took {slowest:.1f} s ({slowest_name}); peak memory {peak:.0f} MiB")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
