"""Damaged .mlmodel files against the importer.

    python bench/coreml_fuzz.py --minutes 10 --seed 1 [--traced]

Each must end in a graph or in a named error of one line, in little memory.
"""

import pathlib
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "importers" / "coreml")
sys.path[:0] = [str(folder) for folder in (_TESTS / "fuzzing", *FOLDERS)]

from coreml_mutations import run_mutations  # noqa: E402
from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` files and import them."""
    return run_mutations(count, seed, traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "coreml_fuzz:one_round", FOLDERS, 200))
