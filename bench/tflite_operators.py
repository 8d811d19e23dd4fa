"""Random TFLite models of one operator against LiteRT's reference kernels: integers bit for bit, reals to float32.

python bench/tflite_operators.py --count 200 --seed 1 [--only ADD CONV_2D]
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "importers"))

from tflite_moves import MOVES  # noqa: E402 (the path comes first)
from tflite_operator_cases import CASES, agree, both, feeds_of  # noqa: E402


def main() -> int:
    """One line for each operator and type; 1 if a result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, dtypes) in (CASES | MOVES).items():
            if arguments.only and name not in arguments.only:
                continue
            for dtype in dtypes:
                wrong += _judge(name, make, dtype, arguments, pathlib.Path(folder))
    return int(wrong > 0)


def _judge(name, make, dtype, arguments, folder) -> int:
    equal = differing = refused = 0
    most, told = 0, ""
    for number in range(arguments.count):
        random = np.random.default_rng([arguments.seed, number])
        made = make(random, dtype)
        try:
            pairs = both(made, feeds_of(made, random), folder)
        except Exception as error:
            refused += 1
            told = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            continue
        same = all(agree(a, b) for a, b in pairs)
        equal, differing = equal + same, differing + (not same)
        if not same:
            most = max(
                most,
                *(
                    int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max())
                    if a.shape == b.shape
                    else 999999
                    for a, b in pairs
                ),
            )
    print(
        f"{name:24} {dtype:8} equal {equal:4} differ {differing:4} (by {most}) refused {refused:4} {told}",
        flush=True,
    )
    return differing


if __name__ == "__main__":
    sys.exit(main())
