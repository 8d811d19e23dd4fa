"""Damaged NNR data against the decoder: a million mutated inputs, or as many as you like.

    python bench/nnr_fuzz.py --inputs 1000000 --seed 1

Payloads of every type, single units, bitstreams and both carriages are mutated and decoded. Each must end in values or
in NnrError; a payload that is accepted must be what its values encode to. The address space is limited, so that a
stream that makes the decoder take memory is found too. Prints what became of the inputs and the slowest of them; exit 1
if anything else happened. Needs numba and onnx.
"""

import argparse
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "nnr"))

from nnr_mutations import Tally, make_samples, run_mutations  # noqa: E402 (the path comes first)

# Beyond this the samples are made anew.
ROUND = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", type=int, default=6, help="limit of the address space in GiB")
    chosen = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (chosen.memory << 30, chosen.memory << 30))
    started, total, number = time.monotonic(), Tally(), 0
    while total.inputs < chosen.inputs:
        seed = chosen.seed * 1_000_000 + number
        found = run_mutations(min(ROUND, chosen.inputs - total.inputs), seed, make_samples(seed))
        total.accepted += found.accepted
        total.refused += found.refused
        total.wrong += found.wrong
        if found.slowest_seconds > total.slowest_seconds:
            total.slowest_seconds, total.slowest_kind = found.slowest_seconds, found.slowest_kind
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
        f"{total.inputs:,} inputs, {len(total.wrong)} wrong, {seconds:.0f} s; the slowest {total.slowest_kind} took "
        f"{1000 * total.slowest_seconds:.0f} ms (compilation included); peak memory {peak:.0f} MiB"
    )
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
