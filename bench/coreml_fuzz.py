"""Damaged .mlmodel files against the importer.

    python bench/coreml_fuzz.py --minutes 10 --seed 1 [--traced]

Each must end in a graph or in a named error of one line, in little memory.
"""

import pathlib
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(_TESTS / "fuzzing"))
sys.path.insert(0, str(_TESTS / "importers" / "coreml"))

from coreml_mutations import run_mutations  # noqa: E402
from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` files and import them."""
    return run_mutations(count, seed, traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", one_round, 200))
