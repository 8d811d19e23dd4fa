"""Damaged TFLite models against the importer.

    python bench/tflite_fuzz.py --minutes 10 --seed 1 [--traced]

Each must end in a graph or in a named error of one line.
"""

import pathlib
import sys
import tempfile

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "importers")
sys.path[:0] = [str(folder) for folder in (_TESTS / "fuzzing", *FOLDERS)]

from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)
from tflite_models import run_mutations  # noqa: E402


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` models and import each."""
    with tempfile.TemporaryDirectory() as folder:
        return run_mutations(count, seed, pathlib.Path(folder), traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "tflite_fuzz:one_round", FOLDERS, 20, memory_gib=8))
