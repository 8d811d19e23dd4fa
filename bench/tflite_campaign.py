"""Random TFLite graphs of 3 to 7 integer operators against LiteRT's reference kernels, bit for bit.

    python bench/tflite_campaign.py --graphs 1000 --seed 1 [--first 0] [--emulate-each 10]

Golden computes each, the emulator one in ten. A graph that differs stays in build/tflite_random.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers"))

from tflite_random import campaign  # noqa: E402 (the path comes first)


def main() -> int:
    """A line for each graph that is not equal, then the counts; 1 if a result differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--emulate-each", type=int, default=10, help="the emulator runs one of so many; 0: none"
    )
    options = parser.parse_args()
    folder = pathlib.Path("build/tflite_random")
    folder.mkdir(parents=True, exist_ok=True)
    counts, lines = campaign(options.seed, options.first, options.graphs, folder, options.emulate_each)
    print("\n".join([*lines, ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]))
    return int(counts["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main())
