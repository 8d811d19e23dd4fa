"""Damaged files of every format that a command reads.

    python bench/files_fuzz.py --inputs 500 --seed 1

Bits, pieces, lengths, fields of flatbuffers and protobuf, words of text, values of JSON, members of archives and
headers with right CRCs. Each file is given to the command that reads it: a result, or one line and exit code 1.
"""

import pathlib
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "fuzzing")
sys.path.insert(0, str(FOLDERS[1]))

from every_format import run_mutations  # noqa: E402 (the paths come first)
from fuzz_runner import Tally, long_run  # noqa: E402


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` files and give each to its command."""
    return run_mutations(count, seed)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "files_fuzz:one_round", FOLDERS, 170, memory_gib=24))
