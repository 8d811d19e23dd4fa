"""What `tosaic run` writes: outputs, measurements, reports; mismatches with golden; device faults."""

import json
import subprocess
import sys

import numpy as np
import pytest
from shared_files import ABSENT, SHARED

from tosaic.compiler.ir import read_tosa
from tosaic.driver import session as session_module
from tosaic.errors import DeviceError
from tosaic.sim.golden import evaluate

ON = ("--on", "emulator")
LAYER_KEYS = {"name": str, "op": str, "cycles": int, "macs": int}


def golden_scores():
    (scores,) = evaluate(read_tosa("tiny.tosa"), {"image": np.load("x.npy")}).values()
    return scores


@pytest.mark.parametrize("target", ["golden", "emulator"])
def test_outputs_are_files_and_lines(tosaic, here, target):
    outcome = tosaic("run", "tiny.tosa", "-i", "image=x.npy", "-o", "a/b", "--on", target)
    assert (outcome.code, outcome.err) == (0, "")
    scores = golden_scores()
    np.testing.assert_array_equal(np.load(here / "a" / "b" / "scores.npy"), scores)
    assert np.load(here / "a" / "b" / "scores.npy").dtype == np.int8
    assert outcome.out.splitlines()[0] == f"scores int8[1, 10]: {' '.join(map(str, scores[0]))}"


def test_check(tosaic):
    outcome = tosaic("run", "tiny.tosa", "-i", "x.npy", "--check", *ON)
    assert outcome.code == 0
    assert outcome.out.splitlines()[-2] == "bit-exact: 1 outputs equal golden"
    layers = tosaic("run", "tiny.tosa", "-i", "x.npy", "--check", "--layers", *ON)
    assert layers.out.splitlines()[-2] == "bit-exact: 3 layers and 1 outputs equal golden"


CASCADED = SHARED / "cases/files/chain_407.tosa"


@pytest.mark.skipif(not CASCADED.is_file(), reason=ABSENT)
@pytest.mark.parametrize("memory", [(), ("--memory-bandwidth", "0.25")])
def test_run_compares_every_layer_of_a_cascade(tosaic, here, memory):
    with np.load(CASCADED.with_suffix(".npz")) as arrays:
        for name, value in arrays.items():
            np.save(name, value)
    inputs = ("-i", "image=image.npy", "-i", "input_1=input_1.npy")
    machine = (*ON, "--config", "nano,am_bytes=4096", *memory)
    checked = tosaic("run", CASCADED, *inputs, *machine, "--check", "--layers")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.splitlines()[-2] == "bit-exact: 6 layers and 1 outputs equal golden"


def test_stats(tosaic, here):
    assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--stats", "s.json", *ON).code == 0
    stats = json.loads((here / "s.json").read_text())
    types = {
        "cycles": int,
        "macs": int,
        "mac_utilization": float,
        "dram_read_bytes": int,
        "dram_write_bytes": int,
        "config": str,
        "target": str,
        "layers": list,
    }
    assert {key: type(stats[key]) for key in types} == types
    assert stats["bit_exact"] is None
    assert (stats["config"], stats["target"]) == ("base", "emulator")
    assert (stats["memory_bandwidth"], stats["memory_latency"]) == (16, 50)
    assert [{key: type(layer[key]) for key in LAYER_KEYS} for layer in stats["layers"]] == [LAYER_KEYS] * 3
    assert [layer["op"] for layer in stats["layers"]] == ["CONV2D", "CONV2D", "CONV2D"]
    assert sum(layer["macs"] for layer in stats["layers"]) == stats["macs"] == 6400
    assert 0 < sum(layer["cycles"] for layer in stats["layers"]) <= stats["cycles"]
    assert stats["mac_utilization"] == stats["macs"] / stats["cycles"] / 256
    tosaic("run", "tiny.tosa", "-i", "x.npy", "--check", "--stats", "s.json", *ON)
    assert json.loads((here / "s.json").read_text())["bit_exact"] is True


def test_stats_of_golden_have_no_cycles(tosaic, here):
    assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--stats", "s.json", "--on", "golden").code == 0
    stats = json.loads((here / "s.json").read_text())
    names = ("cycles", "mac_utilization", "dram_read_bytes", "dram_write_bytes", "bit_exact")
    assert {name: stats[name] for name in names} == dict.fromkeys(names)
    assert stats["layers"] == []


def test_memory_options(tosaic, here):
    def cycles(*options):
        assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--stats", "s.json", *options, *ON).code == 0
        return json.loads((here / "s.json").read_text())["cycles"]

    usual = cycles()
    assert cycles("--memory-bandwidth", "16", "--memory-latency", "50") == usual
    assert cycles("--memory-latency", "5000") > usual + 9000
    assert cycles("--memory-bandwidth", "1") > 2 * usual


def test_report(tosaic, here):
    assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--check", "--report", "r.html", *ON).code == 0
    page = (here / "r.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<h1>tiny on Tosaic</h1>" in page
    assert "equal to golden" in page
    assert page.count('<tr id="layer-') == 3


def test_random_inputs_follow_the_seed(tosaic):
    def out(seed):
        return tosaic("run", "tiny.tosa", "--random", seed, *ON).told

    assert out(1) == out(1)
    assert out(1) != out(2)


def test_random_fills_only_what_is_missing(tosaic):
    given = tosaic("run", "tiny.tosa", "-i", "x.npy", *ON).told
    assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--random", "1", *ON).told == given


@pytest.fixture
def flipped(monkeypatch):
    """A runner that flips bit 0 of element `index` of what the port `name` holds after the run."""

    def install(find_port, index):
        def make_runner(target, program, *limits):
            runner = session_module.__dict__["real_make_runner"](target, program, *limits)

            def run(memory):
                result = runner(memory)
                memory[find_port(program).address + index] ^= 1
                return result

            return run

        monkeypatch.setattr(session_module, "real_make_runner", session_module.make_runner, raising=False)
        monkeypatch.setattr(session_module, "make_runner", make_runner)

    return install


def test_mismatch_names_the_first_element_that_differs(refused, flipped, here):
    flipped(lambda program: program.outputs[0], 7)
    wanted = int(golden_scores()[0, 7])
    arguments = ("run", "tiny.tosa", "-i", "x.npy", "--check", "--stats", "s.json", *ON)
    assert refused(*arguments, code=3) == (
        f"tensor 'scores' differs at [0, 7]: got {wanted ^ 1}, golden {wanted} (1 of 10 elements differ); "
        f"it is computed by {read_tosa('tiny.tosa').producer('scores')}"
    )
    assert not (here / "s.json").exists()


def test_mismatch_of_a_layer(refused, flipped):
    flipped(lambda program: program.kept[1], 3)
    graph = read_tosa("tiny.tosa")
    tensors = evaluate(graph, {"image": np.load("x.npy")}, keep=True)
    arguments = ("run", "tiny.tosa", "-i", "x.npy", "--check", "--layers", *ON)
    message = refused(*arguments, code=3)
    name = message.split("'")[1]
    assert name != "scores"
    where = tuple(int(i) for i in np.unravel_index(3, tensors[name].shape))
    wanted = int(tensors[name][where])
    assert message == (
        f"tensor '{name}' differs at {list(where)}: got {wanted ^ 1}, golden {wanted} "
        f"(1 of {tensors[name].size} elements differ); it is computed by {graph.producer(name)}"
    )


def test_device_fault(refused, monkeypatch):
    def make_runner(*arguments):
        def run(memory):
            raise DeviceError("BUS_READ in LOAD at program counter 16 (LOAD_GO)")

        return run

    monkeypatch.setattr(session_module, "make_runner", make_runner)
    assert refused("run", "tiny.tosa", "-i", "x.npy", *ON, code=4) == (
        "BUS_READ in LOAD at program counter 16 (LOAD_GO)"
    )


def test_real_processes(here):
    def call(*arguments):
        command = [sys.executable, "-c", "from tosaic.cli.app import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    done = call("run", "tiny.tosa", "-i", "image=x.npy", "--check", *ON)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2] == "bit-exact: 1 outputs equal golden"
    done = call("run", "tiny.tosa", *ON)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "tosaic: error: input 'image' (int8[1, 8, 8, 1]) is missing: give -i image=FILE.npy, "
        "or --random SEED to make it up\n"
    )
    done = call("run", "tiny.tosa", "--on")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_reader_that_stops_early(here):
    main = "from tosaic.cli.app import main; main()"
    command = f"{sys.executable} -c '{main}' check tiny.tosa | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""


def test_batch(tosaic, here):
    done = tosaic("run", "tiny.tosa", "--on", "emulator", "--batch", "3", "--random", "1", "--check")
    assert done.code == 0, done.err
    assert "scores int8[3, 10]" in done.out and "cycles for each of 3 samples" in done.out
    compiled = tosaic("compile", "tiny.tosa", "-o", "tiny.tsc", "--batch", "3", "--explain")
    assert compiled.code == 0 and "image int8[3,8,8,1]" in compiled.out
    again = tosaic("run", "tiny.tsc", "--on", "emulator", "--random", "1")
    assert again.code == 0 and "scores int8[3, 10]" in again.out
