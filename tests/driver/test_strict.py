"""Inputs that break a REQUIRE of the specification, through session and command line."""

import re

import numpy as np
import pytest

import tosaic
from tosaic.cli import app
from tosaic.compiler.ir import DType, Graph, GraphBuilder, write_tosa
from tosaic.driver import session as session_module

RULE = "unpredictable by the specification: it requires that the divisor is not 0; at element [1] it is 0"
DEFINED = {"a": np.array([7, -7, 5], np.int32), "b": np.array([2, 2, -1], np.int32)}
OPEN = {"a": np.array([7, -7, 5], np.int32), "b": np.array([2, 0, -1], np.int32)}


@pytest.fixture
def division() -> Graph:
    build = GraphBuilder("division")
    a, b = (build.input(name, (3,), DType.INT32) for name in ("a", "b"))
    build.output(build.add("INTDIV", [a, b]))
    return build.finish()


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_strict(division, target):
    session = tosaic.Session(division, target, "nano")
    assert next(iter(session.run(DEFINED, strict=True).values())).tolist() == [3, -3, -5]
    assert next(iter(session.run(OPEN).values())).shape == (3,)
    with pytest.raises(tosaic.UnpredictableError, match=re.escape(RULE) + "$"):
        session.run(OPEN, strict=True)
    with pytest.raises(tosaic.UnpredictableError, match=r"^INTDIV_0"):
        tosaic.run(division, OPEN, target, config="nano", strict=True)


def test_a_compiled_program_has_no_graph_to_ask(division):
    program = tosaic.Session(division, "emulator", "nano").program
    with pytest.raises(tosaic.InputError, match="golden needs the graph"):
        tosaic.Session(program, "emulator").run(DEFINED, strict=True)


@pytest.fixture
def wrong(monkeypatch):
    """An emulator that changes the first byte of the first output."""
    real = session_module.make_runner

    def make_runner(target, program, *limits):
        runner = real(target, program, *limits)

        def run(memory):
            result = runner(memory)
            memory[program.outputs[0].address] ^= 1
            return result

        return run

    monkeypatch.setattr(session_module, "make_runner", make_runner)


def test_a_mismatch_on_defined_inputs_is_the_accelerators(division, wrong):
    with pytest.raises(tosaic.MismatchError, match=r"differs at \[0\]: got 2, golden 3"):
        tosaic.Session(division, "emulator", "nano").run(DEFINED, check=True)


def test_a_mismatch_on_other_inputs_is_not(division, wrong):
    with pytest.raises(tosaic.UnpredictableError) as caught:
        tosaic.Session(division, "emulator", "nano").run(OPEN, check=True)
    message = str(caught.value)
    assert message.startswith("the accelerator is not to blame, the inputs have no defined outputs: INTDIV_0")
    assert RULE in message
    assert "; found by this: tensor '" in message
    assert "differs at [0]: got 2, golden 3" in message


@pytest.mark.parametrize(
    ("divisor", "options", "code"), [(2, ["--strict"], 0), (0, ["--strict"], 1), (0, [], 0)]
)
def test_command_line(division, divisor, options, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tosa(division, "division.tosa")
    np.save("a.npy", DEFINED["a"])
    np.save("b.npy", np.array([2, divisor, -1], np.int32))
    given = ["-i", "a=a.npy", "-i", "b=b.npy", "--on", "golden", *options]
    monkeypatch.setattr("sys.argv", ["tosaic", "run", "division.tosa", *given])
    with pytest.raises(SystemExit) as stop:
        app.main()
    assert (stop.value.code or 0) == code
    error = capsys.readouterr().err
    assert (RULE in error) == (code == 1)
    assert error.count("\n") == (code == 1)


@pytest.mark.parametrize(("divisor", "code"), [(2, 3), (0, 1)])
def test_exit_codes_of_check(division, wrong, divisor, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tosa(division, "division.tosa")
    np.save("a.npy", DEFINED["a"])
    np.save("b.npy", np.array([2, divisor, -1], np.int32))
    given = ["-i", "a=a.npy", "-i", "b=b.npy", "--on", "emulator", "--config", "nano", "--check"]
    monkeypatch.setattr("sys.argv", ["tosaic", "run", "division.tosa", *given])
    with pytest.raises(SystemExit) as stop:
        app.main()
    assert stop.value.code == code
    assert (RULE in capsys.readouterr().err) == (code == 1)
