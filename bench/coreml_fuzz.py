"""Damaged .mlmodel files against the importer.

    python bench/coreml_fuzz.py --minutes 10 --seed 1

Each must end in a graph or in a named error of one line. The address space is limited, so that a small file that makes
the importer take memory is found too. Prints what became of the inputs and the slowest of them; exit 1 if anything else
happened.
"""

import argparse
import pathlib
import resource
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers" / "coreml"))

from coreml_mutations import run_mutations  # noqa: E402 (the path comes first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=3, help="limit of the address space in GiB")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    tally = run_mutations(chosen.inputs, chosen.seed, chosen.minutes * 60)
    for kind, data, text in tally.wrong[:20]:
        print(f"{kind}: {text}\n    {data.hex()[:400]}")
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(tally.outcomes.items()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{tally.inputs:,} inputs: {told}; slowest {tally.slowest_seconds:.2f} s of CPU; {peak:.0f} MB at most; "
        f"{len(tally.wrong)} wrong"
    )
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
