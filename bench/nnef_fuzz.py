"""Damaged NNEF models against the importer: graphs, tensor files, quantization files and archives.

    python bench/nnef_fuzz.py --minutes 10 --seed 1 [--traced]

Each must end in a graph that golden runs, or in an error of Tosaic's own in one line, in little memory.
"""

import pathlib
import sys
import tempfile

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "importers" / "nnef")
sys.path[:0] = [str(folder) for folder in (_TESTS / "fuzzing", *FOLDERS)]

from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)
from nnef_mutations import make_samples, run_mutations  # noqa: E402

SAMPLES = make_samples()


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` models and import each."""
    with tempfile.TemporaryDirectory() as folder:
        return run_mutations(count, seed, SAMPLES, pathlib.Path(folder), traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "nnef_fuzz:one_round", FOLDERS, 500))
