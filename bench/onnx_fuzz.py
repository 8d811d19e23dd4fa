"""Damaged ONNX models against the importer.

    python bench/onnx_fuzz.py --minutes 10 --seed 1 [--traced]

Models of the package's node tests are changed in fields and in bytes. Each must become a graph or end in an error of
one line, in little memory.
"""

import pathlib
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "importers")
sys.path[:0] = [str(folder) for folder in (_TESTS / "fuzzing", *FOLDERS)]

from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)
from onnx_mutations import run_mutations  # noqa: E402


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` models and import each."""
    return run_mutations(count, seed, traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "onnx_fuzz:one_round", FOLDERS, 200))
