"""Random ONNX graphs against ONNX Runtime, then as integers on the emulator against golden.

python bench/onnx_graphs.py --count 500 --seed 1 [--float]
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers"))

import random_onnx_forms  # noqa: E402, F401 (the path comes first; it registers forms)
import random_onnx_layers  # noqa: E402, F401 (the others)
from random_onnx import Tally, judge  # noqa: E402


def main() -> int:
    """What became of the graphs; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the first graph; one alone: --count 1")
    parser.add_argument("--float", action="store_true", help="do not quantize")
    arguments = parser.parse_args()
    tally = Tally()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        judge(seed, tally, quantized=not arguments.float)
    print(tally)
    return int(bool(tally.wrong or tally.crashed))


if __name__ == "__main__":
    sys.exit(main())
