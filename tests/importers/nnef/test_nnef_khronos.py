"""Golden against Khronos' C++ interpreter (the package nnef), where that computes what the text says.

It implements a later dialect. What it does not run, or computes otherwise, is listed here with the reason.
"""

import pathlib
import re
import subprocess
import sys

import numpy as np
from nnef_model_files import write_model
from nnef_operations import CASES, Case

from tosaic.compiler.importers.nnef.tosa import import_nnef
from tosaic.sim.golden import evaluate

NOT_RUN = (
    "argmax_pool max_pool_with_index sample desample multilinear_upsample avg_roi_pool max_roi_pool roi_resample "
    "avg_roi_align max_roi_align linear_quantize update"
).split()
ABSENT = {*NOT_RUN, "not", "and", "or"}
"""Operations without a case that it judges."""


def reason_not_to_compare(case: Case) -> str | None:
    """Why the interpreter is no judge of a case."""
    if case.operation in NOT_RUN:
        return "it has no code for it"
    if any(data != "scalar" for data, *_ in case.operands.values()):
        return "its session takes floats"
    if case.operation == "round" and "2.0" in case.body:
        return "it rounds ties away from zero, the text upward"
    if case.operation == "debox" and "normalize" in case.body:
        return "it does not normalize, and damages its memory"
    if case.operation == "matmul" and len(case.operands["v"][1]) == 4:
        return "it does not broadcast batch dimensions"
    if case.operation in ("conv", "deconv") and len(case.operands["x"][1]) == 2:
        return "it crashes without spatial dimensions"
    if any(border in case.body for border in ("'replicate'", "'reflect'", "'reflect-even'")):
        return "it has no borders of copies"
    if re.search(r"size = \[1(,1)*,3\]", case.body) and len(case.operands["x"][1]) > 3:
        return "its size has an entry for every dimension"
    if case.operation.startswith("arg") and "," in case.body.split("axes")[1]:
        return "its argmax has one axis"
    if case.body == "y = conv(x, f, b, groups = 2);":
        return "its bias has rank 2"
    if case.body == "y = softmax(x, axes = [1,3]);":
        return "its softmax has one axis"
    return None


def flat_text(case: Case) -> str:
    return case.text(False).replace("extension KHR_enable_operator_expressions;\n", "")


def test_golden_agrees_with_khronos_interpreter(tmp_path: pathlib.Path) -> None:
    compared = {i: case for i, case in enumerate(CASES) if reason_not_to_compare(case) is None}
    for number, case in compared.items():
        folder = write_model(tmp_path / f"{number:04}", flat_text(case), {})
        np.savez(folder / "inputs.npz", **{f"input_{i}": v for i, v in enumerate(case.values().values())})
    script = pathlib.Path(__file__).with_name("khronos_session.py")
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for number, case in compared.items():
        folder = tmp_path / f"{number:04}"
        with np.load(folder / "answers.npz") as stored:
            answers = [stored[name] for name in stored.files]
        got = evaluate(import_nnef(folder), case.values())
        for answer, (name, value) in zip(answers, got.items(), strict=True):
            assert value.dtype.kind != "f" or np.allclose(value, answer, rtol=1e-4, atol=1e-5), (
                case.body,
                name,
            )
            assert value.dtype.kind == "f" or np.array_equal(value, answer), (case.body, name)
    assert len(compared) > 270 and len({case.operation for case in compared.values()}) == 96 - len(ABSENT)
