"""The fixture `cosim` in a test suite of a user's."""

from pathlib import Path

pytest_plugins = ["pytester"]

TINY = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
TEST = f"""
import numpy as np

def test_network(cosim):
    x = np.zeros((1, 8, 8, 1), np.int8)
    outputs = cosim({str(TINY)!r}, {{"image": x}}, target="emulator", config="small")
    cosim({str(TINY)!r}, {{"image": x}}, target="emulator", layers=True)
    assert outputs["scores"].shape == (1, 10)
"""
FLIP = """
import importlib
import pytest

# Not `from tosaic.driver import session`: pytester forgets modules, the package would still have the old one.
session = importlib.import_module("tosaic.driver.session")

@pytest.fixture(autouse=True)
def flip(monkeypatch):
    real = session.make_runner

    def make_runner(target, program, *memory_options):
        runner = real(target, program, *memory_options)

        def run(memory):
            result = runner(memory)
            memory[program.outputs[0].address + 4] ^= 1
            return result

        return run

    monkeypatch.setattr(session, "make_runner", make_runner)
"""


def test_cosim_passes(pytester):
    pytester.makepyfile(TEST)
    pytester.runpytest("-p", "no:xdist").assert_outcomes(passed=1)


def test_cosim_fails_on_a_mismatch_in_one_line(pytester):
    pytester.makeconftest(FLIP)
    pytester.makepyfile(TEST)
    result = pytester.runpytest("-p", "no:xdist")
    result.assert_outcomes(failed=1)
    assert "During handling" not in result.stdout.str()
    result.stdout.fnmatch_lines(
        ["emulator on small is not bit-exact: tensor 'scores' differs at *0, 4*: got *, golden *"]
    )


def test_cosim_is_listed_with_its_help(pytester):
    result = pytester.runpytest("-p", "no:xdist", "--fixtures")
    result.stdout.fnmatch_lines(["cosim*", "*function cosim(model, inputs, *"])


WRONG = f"""
import numpy as np
import pytest

X = np.zeros((1, 8, 8, 1), np.int8)
CALLS = {{
    "dtype": ({str(TINY)!r}, {{"image": X.astype(np.int64)}}, "emulator"),
    "shape": ({str(TINY)!r}, {{"image": X[0]}}, "emulator"),
    "target": ({str(TINY)!r}, {{"image": X}}, "emulater"),
    "file": ("none.tosa", {{"image": X}}, "emulator"),
    "name": ({str(TINY)!r}, {{"x": X}}, "emulator"),
}}

@pytest.mark.parametrize("wrong", CALLS)
def test_network(cosim, wrong):
    cosim(*CALLS[wrong])
"""


def test_what_a_user_does_wrong_is_one_line_too(pytester):
    pytester.makepyfile(WRONG)
    result = pytester.runpytest("-p", "no:xdist", "--tb=auto")
    result.assert_outcomes(failed=5)
    lines = [line for line in result.stdout.lines if line.startswith("cosim: ")]
    assert len(lines) == 5 and "  File " not in result.stdout.str() and "Error" not in "".join(lines)
    result.stdout.fnmatch_lines(
        ["cosim: input 'image' has shape [[]8, 8, 1], the model wants *: give x[[]None]"]
    )
    result.stdout.fnmatch_lines(["cosim: there is no target 'emulater'; did you mean emulator? *"])
