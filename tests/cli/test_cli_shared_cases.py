"""Cases of an examination, kept outside the project: models that people brought, typed as people type."""

import shutil

import pytest
from shared_files import ABSENT, SHARED

FILES = SHARED / "cases/files"
pytestmark = pytest.mark.skipif(not FILES.is_dir(), reason=ABSENT)


@pytest.fixture
def cases(here):
    for path in FILES.glob("open_batch*"):
        shutil.copy(path, here)
    for name in ("dict_outputs.pt2", "nhwc_int8.npy"):
        shutil.copy(FILES / name, here)


def test_an_open_batch(tosaic, refused, cases):
    quantize = (
        "quantize",
        "open_batch.onnx",
        "-c",
        "open_batch_calib.npz",
        "-o",
        "NET.tosa",
        "--shape",
        "batch=1",
    )
    assert tosaic(*quantize).code == 0
    evaluate = ("evaluate", "NET.tosa", "--data", "open_batch_test.npz", "--against", "open_batch.onnx")
    outcome = tosaic(*evaluate, "--shape", "batch=1")
    assert (outcome.code, outcome.err) == (0, "")
    assert "20 samples against open_batch.onnx" in outcome.out
    said = refused("run", "NET.tosa", "-i", "image=nhwc_int8.npy", "--on", "emulator")
    assert "(0, 3, 1, 2)" in said and "reshape" not in said and "crop" not in said


def test_outputs_that_are_a_dictionary(tosaic, cases):
    pytest.importorskip("torch")
    assert tosaic("quantize", "dict_outputs.pt2", "-c", "open_batch_calib.npz", "-o", "D.tosa").code == 0
    outcome = tosaic("evaluate", "D.tosa", "--data", "open_batch_test.npz", "--against", "dict_outputs.pt2")
    assert outcome.code == 0
    assert {line.split()[0] for line in outcome.out.splitlines()} >= {"scores", "features"}
