"""Damaged NNR data against the decoder: a million mutated inputs, or as many as you like.

    python bench/nnr_fuzz.py --inputs 1000000 --seed 1

Payloads of every type, single units, bitstreams, dictionaries and the carriages of ONNX, NNEF and TOSA are mutated and
decoded. Each must end in values or in NnrError; a payload that is accepted must be what its values encode to. With
`--traced` the memory of each is measured too: 64 MiB and 8 times the input are allowed. Needs numba and onnx.
"""

import pathlib
import sys

_TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
FOLDERS = (pathlib.Path(__file__).resolve().parent, _TESTS / "nnr")
sys.path[:0] = [str(folder) for folder in (_TESTS / "fuzzing", *FOLDERS)]

from fuzz_runner import Tally, long_run  # noqa: E402 (the paths come first)
from nnr_mutations import make_samples, run_mutations  # noqa: E402


def one_round(count: int, seed: int, traced: bool) -> Tally:
    """Damage `count` streams and decode each; the streams are made anew each time."""
    return run_mutations(count, seed, make_samples(seed), traced=traced)


if __name__ == "__main__":
    sys.exit(long_run(__doc__ or "", "nnr_fuzz:one_round", FOLDERS, 20000, memory_gib=6))
