"""Mutated programs on the emulator and on the RTL: both must end the same way, with the same fault at the same place.

    python bench/hostile_programs.py [--programs 2000] [--first 0]

Prints how many ended how, and every program whose two ends nothing explains. Exit 1 if there is one.
"""

import argparse
import collections
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "fuzzing"))

from hostile_programs import OK, SAME, WRONG, judge, mutant  # noqa: E402 (the path comes first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    chosen = parser.parse_args()
    tally: collections.Counter[str] = collections.Counter()
    for number in range(chosen.first, chosen.first + chosen.programs):
        verdict = judge(mutant(number))
        detail = "" if verdict.kind != SAME else ": END" if verdict.emulated == OK else ": a fault"
        tally[verdict.kind + detail] += 1
        if verdict.kind == WRONG:
            print(f"program {number}: emulator {verdict.emulated}, RTL {verdict.simulated}", flush=True)
    for kind, count in tally.most_common():
        print(f"{count:6}  {kind}")
    print(f"{time.process_time():.0f} s of processor time")
    return int(tally[WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main())
