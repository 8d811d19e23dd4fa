"""Damaged NNEF models against the importer: graphs, tensor files, quantization files and archives.

    python bench/nnef_fuzz.py --seconds 600 --seed 1

Each must end in a graph that golden runs, or in an error of Tosaic's own in one line. The address space is limited, so
that a model that makes the importer take memory is found too; `--traced` compares what Python takes with the size of
each file instead, which is slower. Prints what became of the inputs and the slowest of them; exit 1 if anything else
happened.
"""

import argparse
import pathlib
import resource
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers" / "nnef"))

from nnef_mutations import Tally, make_samples, run_mutations  # noqa: E402 (the path comes first)

ROUND = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=3, help="limit of the address space in GiB")
    parser.add_argument("--traced", action="store_true")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    started, total, number, samples = time.monotonic(), Tally(), 0, make_samples()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - started < chosen.seconds:
            seed = chosen.seed * 1_000_000 + number
            found = run_mutations(ROUND, seed, samples, pathlib.Path(folder), chosen.traced)
            total.accepted += found.accepted
            total.refused += found.refused
            total.wrong += found.wrong
            total.run += found.run
            total.peak_bytes = max(total.peak_bytes, found.peak_bytes)
            if found.slowest_seconds > total.slowest_seconds:
                total.slowest_seconds, total.slowest = found.slowest_seconds, f"seed {seed}, {found.slowest}"
            for line in found.wrong:
                print(f"seed {seed}, {line}", flush=True)
            number += 1
    seconds = time.monotonic() - started
    print(f"{'kind':14} {'inputs':>9} {'refused':>9} {'accepted':>9}")
    for kind in sorted(total.accepted | total.refused):
        refused, accepted = total.refused[kind], total.accepted[kind]
        print(f"{kind:14} {refused + accepted:>9,} {refused:>9,} {accepted:>9,}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{total.inputs:,} inputs, {total.run:,} run on golden, {len(total.wrong)} wrong, {seconds:.0f} s; the slowest "
        f"({total.slowest}) took {total.slowest_seconds:.2f} s; peak memory {peak:.0f} MiB"
    )
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
