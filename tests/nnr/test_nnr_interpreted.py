"""The loops without numba: the same code, in a fresh interpreter with compilation switched off."""

import os
import pathlib
import subprocess
import sys

import pytest
from nnr_digest import digest

from tosaic.nnr import jit


@pytest.mark.filterwarnings("ignore::tosaic.nnr.NnrWarning")
def test_the_interpreted_loops_compute_the_same() -> None:
    program = pathlib.Path(__file__).parent / "nnr_digest.py"
    run = subprocess.run(
        [sys.executable, program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert jit.COMPILED
    assert run.stdout.split() == ["interpreted", digest()]


def test_numba_is_imported_for_tensors_only() -> None:
    """Importing it takes half a second, which `tosaic --help` need not."""
    program = (
        "import sys, tosaic.cli.app, tosaic.nnr, tosaic.nnr.encoder; assert 'numba' not in sys.modules; "
        "tosaic.nnr.encode_tensor([1]); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
