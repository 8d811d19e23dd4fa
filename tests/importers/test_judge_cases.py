"""Networks in several forms for the judge, as bench/judge_cases.py makes them."""

import pathlib
import subprocess
import sys

import pytest

from tosaic.driver.jobs import LocalProcesses
from tosaic.driver.judge import JudgeVerdict, find_sources, judge_all

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "judge_cases.py"


def made(kind: str, folder: pathlib.Path, *options: str) -> None:
    command = [sys.executable, str(SCRIPT), kind, "-o", str(folder), *options]
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.mark.nightly
def test_tflite_models_by_arms_converter_are_what_litert_computes(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("tosa_converter_for_tflite")
    made("tflite", tmp_path, "--count", "20")
    judged = judge_all(find_sources([str(tmp_path)], 0), ["litert", "golden"], LocalProcesses(1, 600.0))
    assert len(judged) >= 6 and (tmp_path / "refused.txt").is_file()
    assert {each.outcome.verdict for each in judged} <= {JudgeVerdict.EXACT, JudgeVerdict.OPEN}


@pytest.mark.nightly
def test_a_module_is_judged_in_three_forms(tmp_path: pathlib.Path) -> None:
    """Seed 1's second module: all of PyTorch's exporters take it."""
    pytest.importorskip("executorch")
    made("torch", tmp_path, "--count", "2")
    consumers = ["golden", "executorch", "onnxruntime"]
    judged = judge_all(find_sources([str(tmp_path)], 0), consumers, LocalProcesses(1, 600.0))
    assert {each.consumer for each in judged} == set(consumers)
    assert {each.outcome.verdict for each in judged} <= {JudgeVerdict.EXACT, JudgeVerdict.NEAR}
