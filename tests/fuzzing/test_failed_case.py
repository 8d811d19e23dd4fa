"""A failure of a campaign leaves a folder: a case smaller than the one that failed, and a script that shows it."""

import dataclasses
import pathlib
import subprocess
import textwrap

import numpy as np
import pytest
from changed_programs import case_of, mutant, smaller_program
from failed_case import Case, fewest, leave, read, smaller_file
from fuzz_runner import Failure, Tally, _tally_of, round_job
from legal_configs import smaller_config
from random_jobs import config_case

from tosaic.driver.jobs import Job, JobFunction
from tosaic.hw.isa import INSTRUCTION_BYTES, Opcode, decode

HERE = str(pathlib.Path(__file__).resolve().parent)


@pytest.fixture
def planted(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> tuple[str, tuple[str, ...]]:
    """A judge with a fault, in a module of its own: what a campaign would have found."""
    name = f"planted_{request.node.name.partition('[')[0]}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(request.node.function.__doc__.partition("\n\n")[2]))
    return f"{name}:judge", (HERE, str(tmp_path))


def shown(folder: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", str(folder / "show.sh")], capture_output=True, text=True, check=False)


def test_the_fewest_pieces() -> None:
    assert fewest(list(range(100)), lambda some: {7, 60, 61} <= set(some)) == [7, 60, 61]
    assert fewest([1, 2, 3], lambda some: True) == []
    assert fewest([1, 2, 3], lambda some: False) == [1, 2, 3]


def test_a_damaged_file(tmp_path: pathlib.Path, planted: tuple[str, tuple[str, ...]]) -> None:
    """Fails for two of its bytes, of which the original has none.

    def judge(data, settings):
        assert not {7, 9} <= set(data), f"seven and nine\\n{settings['why']}"
        return ""
    """
    original = bytes([1, 2, 3] * 100)
    damaged = original[:50] + bytes([7, 5, 5]) + original[60:200] + bytes([9]) + original[200:]
    case = smaller_file(Case(*planted, damaged, {"why": "planted"}), original)
    assert case.data == bytes([7, 9])
    leave(tmp_path / "case", case)
    done = shown(tmp_path / "case")
    assert (done.returncode, done.stdout) == (1, "AssertionError: seven and nine planted\n")
    assert read(tmp_path / "case") == case
    (tmp_path / "case" / "data.bin").write_bytes(original)
    assert shown(tmp_path / "case").returncode == 0


def test_a_program(tmp_path: pathlib.Path, planted: tuple[str, tuple[str, ...]]) -> None:
    """Fails for a program with a LOAD and a STORE.

    from tosaic.hw.isa import INSTRUCTION_BYTES, decode

    def judge(data, settings):
        code = data[settings["address"] :][: settings["bytes"]]
        parts = [code[at : at + INSTRUCTION_BYTES] for at in range(0, len(code), INSTRUCTION_BYTES)]
        names = {decode(part).opcode.name for part in parts}
        return "both" if {"LOAD_GO", "STORE_GO"} <= names else ""
    """
    before = case_of(mutant(0))
    assert before.judge == "changed_programs:judge_case"
    case = smaller_program(dataclasses.replace(before, judge=planted[0], folders=planted[1]))
    assert before.settings["bytes"] > 2 * INSTRUCTION_BYTES == case.settings["bytes"]
    code = case.data[case.settings["address"] :][: case.settings["bytes"]]
    kept = {decode(code[at : at + INSTRUCTION_BYTES]).opcode for at in range(0, len(code), INSTRUCTION_BYTES)}
    assert kept == {Opcode.LOAD_GO, Opcode.STORE_GO}
    leave(tmp_path / "case", case)
    assert (shown(tmp_path / "case").returncode, shown(tmp_path / "case").stdout) == (1, "both\n")


def test_a_configuration(tmp_path: pathlib.Path, planted: tuple[str, tuple[str, ...]]) -> None:
    """Fails where there are few micro-operations.

    from tosaic.hw.config_text import get_config

    def judge(data, settings):
        return "few" if get_config(settings["config"]).vector_uops < 10 else ""
    """
    before = config_case(3, "emulator", "nano,rows=3,columns=8,line_groups=2,vector_uops=9")
    assert before.judge == "random_jobs:judge_case" and before.problem() == ""
    case = smaller_config(dataclasses.replace(before, judge=planted[0], folders=planted[1]))
    assert case.settings["config"] == "nano,vector_uops=9"
    leave(tmp_path / "case", case)
    assert (shown(tmp_path / "case").returncode, shown(tmp_path / "case").stdout) == (1, "few\n")


def test_a_campaign_as_jobs_keeps_what_failed(
    tmp_path: pathlib.Path, planted: tuple[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One round of three inputs, of which one fails.

    from failed_case import Case
    from fuzz_runner import Tally, judged

    def judge(data, settings):
        return judged(lambda: 1 // data[0])

    def one_round(inputs, seed, traced):
        tally = Tally()
        for number in range(inputs):
            before = len(tally.wrong)
            tally.attempt("byte", str(number), lambda: 1 // (number - 1))
            tally.note(before, Case(__name__ + ":judge", FOLDERS, bytes([max(number - 1, 0)]), {}), b"x")
        return tally

    FOLDERS = ()
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    module = planted[0].partition(":")[0]
    job = Job(
        JobFunction("fuzz_runner:round_job"),
        seed=1,
        settings={"round": f"{module}:one_round", "inputs": 3, "traced": False},
    )
    done = round_job(job)
    found = _tally_of(done.result, done.seconds["slowest"])
    assert isinstance(found, Tally) and found.accepted == {"byte": 2}
    assert found.wrong == ["1: ZeroDivisionError: integer division or modulo by zero"]
    assert found.failures == [Failure(Case(planted[0], (), b"\0", {}), b"x")]
    case = dataclasses.replace(found.failures[0].case, folders=planted[1])
    leave(tmp_path / "case", smaller_file(case, found.failures[0].original))
    assert shown(tmp_path / "case").returncode == 1


@pytest.mark.parametrize(
    "module, settings",
    [
        ("onnx_mutations", {"traced": False}),
        ("tflite_models", {"traced": False, "importer": "import_model"}),
        # Its decoder is compiled first, which takes twelve seconds.
        pytest.param("nnr_mutations", {"traced": False, "seed": 1, "sample": 0}, marks=pytest.mark.nightly),
        ("nnef_mutations", {"traced": False}),
        ("coreml_mutations", {"traced": False}),
    ],
)
def test_every_format_s_judge_can_be_called_again(module: str, settings: dict) -> None:
    """It is called with bytes of another kind, which are refused in one line, so nothing is wrong."""
    tests = pathlib.Path(HERE).parent
    places = [
        tests / "importers",
        tests / "nnr",
        tests / "importers" / "nnef",
        tests / "importers" / "coreml",
    ]
    data = np.arange(20, dtype=np.uint8).tobytes()
    folders = tuple(str(place) for place in (HERE, *places))
    assert Case(f"{module}:judge", folders, data, settings).problem() == ""
