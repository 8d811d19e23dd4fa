"""`tosaic dev judge`: programs with planted faults, and what is told, written and kept of them."""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.compiler.ir import DType, GraphBuilder, read_tosa, write_tosa

TOSA_TOOLS = importlib.util.find_spec("tosa_reference_model") is not None
HEAD = f"""#!{sys.executable}
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[-1])
"""
VALUES = """
import numpy as np
ports = json.loads((folder / "case.json").read_text())
known = {port["name"]: np.load(folder / port["file"]) for port in ports["inputs"]}
RULES = {
    "total": lambda: value("x") + value("y"),
    "high": lambda: np.maximum(value("total"), value("y")) + FAULT,
    "less": lambda: value("high") - value("x"),
    "narrow": lambda: value("less").astype(np.int8),
    "end": lambda: np.clip(value("narrow"), -9, 9),
}
def value(name):
    if name not in known:
        known[name] = RULES[name]()
    return known[name]
for port in ports["outputs"]:
    np.save(folder / port["file"], value(port["name"]))
"""


def program(name: str, text: str) -> str:
    """A program as a consumer."""
    path = pathlib.Path(name)
    path.write_text(HEAD + text)
    path.chmod(0o755)
    return f"cmd:./{name}"


def computing(fault: int) -> str:
    """A program that knows the operators of `chain`, and adds a fault to what MAXIMUM gives."""
    return VALUES.replace("FAULT", str(fault))


@pytest.fixture
def chain(here) -> str:
    """A folder with a case: ADD, MAXIMUM, SUB, CLAMP."""
    build = GraphBuilder("chain")
    x, y = (build.input(name, (2, 3), DType.INT32) for name in "xy")
    total = build.add("ADD", [x, y], output="total")
    high = build.add("MAXIMUM", [total, y], nan_mode="PROPAGATE", output="high")
    less = build.add("SUB", [high, x], output="less")
    narrow = build.add("CAST", [less], dtype=DType.INT8, output="narrow")
    build.output(build.add("CLAMP", [narrow], min_val=-9, max_val=9, nan_mode="PROPAGATE", output="end"))
    folder = here / "cases" / "chain"
    folder.mkdir(parents=True)
    write_tosa(build.finish(), folder / "graph.tosa")
    np.save(folder / "input_0.npy", np.array([[1, 2, 3], [4, 5, 6]], np.int32))
    np.save(folder / "input_1.npy", np.array([[5, -4, 3], [-2, 1, 0]], np.int32))
    return "cases"


def row(out: str, consumer: str) -> dict[str, str]:
    """The table's row of a consumer."""
    lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")
    ]
    return next(dict(zip(lines[0], cells, strict=True)) for cells in lines[2:] if cells[0] == consumer)


def test_who_computes_what_golden_does_is_exact(tosaic, chain):
    right = program("right", computing(0))
    found = tosaic("dev", "judge", chain, "--on", right)
    assert (found.code, found.err, row(found.out, right)["exact"]) == (0, "", "1")


@pytest.mark.long
def test_tosaics_own_targets_compute_random_graphs(tosaic, here):
    found = tosaic("dev", "judge", "random:3", "--on", "golden", "--on", "emulator")
    assert (found.code, found.err) == (0, "")
    assert found.out.count("| random graphs | 3 | 3 |") == 2


def test_a_difference_is_cut_to_the_operator_that_makes_it(tosaic, chain, here):
    wrong = program("wrong", computing(1))
    found = tosaic("dev", "judge", chain, "--on", wrong, "--failures", "out", "--markdown", "page.md")
    assert found.code == 3 and row(found.out, wrong)["differs"] == "1"
    said = "output 'high' differs at [0, 0]: got 7, golden 6 (6 of 6 elements differ, by at most 1)"
    assert f"{wrong} differs (1 graphs, as chain): MAXIMUM int32 -> int32: {said}\n" in found.out
    (folder,) = pathlib.Path("out").iterdir()
    graph = read_tosa(folder / "graph.tosa")
    assert [(operator.op, operator.inputs) for operator in graph.operators] == [("MAXIMUM", ["total", "y"])]
    np.testing.assert_array_equal(np.load(folder / "golden_output_0.npy"), [[6, -2, 6], [2, 6, 6]])
    shown = pathlib.Path("page.md").read_text()
    assert f"| {wrong} | cases | 1 |  |  | 1 |  |  |  |  |  |\n" in shown
    assert (
        f"What happens: {said}." in shown
        and ("Golden and TOSA's reference model: exact" in shown) is TOSA_TOOLS
    )
    # The script says the same again.
    again = subprocess.run(["sh", folder / "show.sh"], capture_output=True, text=True, cwd=here, check=False)
    assert (again.returncode, row(again.stdout, wrong)["differs"]) == (3, "1"), again.stderr


def test_of_each_reason_one_refusal_is_made_smaller(tosaic, chain, here):
    shutil.copytree(here / chain / "chain", here / chain / "other")
    asked = program(
        "picky", 'b"high" in (folder / "graph.tosa").read_bytes() and sys.exit(77)\n' + computing(0)
    )
    found = tosaic("dev", "judge", chain, "--on", asked, "--markdown", "page.md")
    assert (found.code, row(found.out, asked)["refused"]) == (0, "2")
    wanted = f"| {asked} | refused | 2 | exit code N | MAXIMUM int32 -> int32 |\n"
    assert wanted in pathlib.Path("page.md").read_text()


REFUSES = """
print("MAXIMUM is no operator of mine", file=sys.stderr)
sys.exit(77)
"""


@pytest.mark.parametrize(
    "name, text, verdict, code, reason",
    [
        ("refuses", REFUSES, "refused", 0, "MAXIMUM is no operator of mine"),
        ("dies", "os.kill(os.getpid(), signal.SIGSEGV)", "crashed", 3, "died of signal 11"),
        ("fails", "raise ValueError('no')", "crashed", 3, "ended with exit code 1: ValueError: no"),
        ("sleeps", "time.sleep(60)", "timed out", 3, "not finished after 0.5 s"),
        (
            "silent",
            "",
            "crashed",
            3,
            "ended with exit code 0, but an output cannot be read: [Errno 2] No such file or directory: 'output_0.npy'",
        ),
    ],
)
def test_each_end_of_a_program_has_a_verdict(tosaic, chain, name, text, verdict, code, reason):
    started = time.monotonic()
    asked = program(name, text)
    limit = "0.5" if name == "sleeps" else "20"
    found = tosaic("dev", "judge", chain, "--on", asked, "--time-limit", limit, "--verbose")
    assert (found.code, row(found.out, asked)[verdict]) == (code, "1")
    assert f"{asked} chain: {verdict}: {reason}\n" in found.out
    assert time.monotonic() - started < 20


def test_a_killed_run_loses_nothing(chain, here):
    """Each start of the program leaves a mark: a second run asks only for what the first one was at."""
    for number in range(11):
        shutil.copytree(here / chain / "chain", here / chain / f"copy{number}")
        np.save(here / chain / f"copy{number}" / "input_0.npy", np.full((2, 3), number, np.int32))
    counting = program("counting", f"open({str(here / 'count')!r}, 'a').write('x')" + computing(0))
    command = [
        sys.executable,
        "-m",
        "tosaic",
        "dev",
        "judge",
        chain,
        "--on",
        counting,
        "--records",
        "kept.jsonl",
    ]
    first = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, start_new_session=True)
    kept = here / "kept.jsonl"
    while not kept.is_file() or len(kept.read_text().splitlines()) < 3:
        assert first.poll() is None
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    done = len(kept.read_text().splitlines())
    again = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and row(again.stdout, counting)["exact"] == "12", again.stderr
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(records) == 12 and all(each["failure"] is None for each in records)
    assert 12 <= len((here / "count").read_text()) <= 12 + 2 and 3 <= done < 12


@pytest.mark.skipif(not TOSA_TOOLS, reason="needs tosa-tools (the extra dev)")
def test_the_reference_model_computes_random_graphs(tosaic, here):
    found = tosaic("dev", "judge", "random:12", "--seed", "3", "--on", "reference-model")
    assert (found.code, row(found.out, "reference-model")["exact"]) == (0, "12")


def test_what_tosa_leaves_open_is_not_judged(tosaic, here):
    """The sum of two int32 that int32 does not hold."""
    build = GraphBuilder("open")
    x = build.input("x", (1,), DType.INT32)
    build.output(build.add("ADD", [x, x], output="y"))
    folder = here / "open"
    folder.mkdir()
    write_tosa(build.finish(), folder / "graph.tosa")
    np.save(folder / "input_0.npy", np.array([1 << 30], np.int32))
    found = tosaic("dev", "judge", "open", "--on", "golden")
    assert (found.code, row(found.out, "golden")["not judged"]) == (0, "1")
    assert "golden open: not judged: " in found.out


@pytest.mark.parametrize(
    "words, told",
    [
        (
            ["random:1", "--on", "glow"],
            "there is no consumer 'glow'; use cmd:PROGRAM, emulator, executorch",
        ),
        (
            ["random:1", "--on", "cmd:./none"],
            "cmd:./none: there is no program './none', or it may not be executed (chmod +x)",
        ),
        (["random:1", "--on", "cmd:"], "there is no consumer 'cmd:'; use cmd:PROGRAM"),
        (
            ["empty", "--on", "golden"],
            "empty: there are no graphs: give random:N, a .tosa file, ",
        ),
        (["cases", "--on", "litert"], "litert reads graph.tflite, which none of the 1 graphs has; "),
        (["cases", "--on", "golden"], "input_0.npy: holds int8[2], input 'x' is int32[2, 3]"),
    ],
)
def test_wrong_words_are_told(tosaic, chain, here, words, told):
    (here / "empty").mkdir()
    np.save(here / "cases" / "chain" / "input_0.npy", np.zeros(2, np.int8))
    found = tosaic("dev", "judge", *words)
    assert found.code == 1 and told in found.err + found.out


@pytest.mark.parametrize(
    "apart, verdict, code", [(0, "exact", 0), (1, "one step apart", 0), (2, "differs", 3)]
)
def test_another_form_of_a_network_may_round_otherwise(tosaic, here, apart, verdict, code):
    """The same network as ONNX: to decode, add, clip, encode."""
    build = GraphBuilder("clip")
    x = build.input("x", (2, 3), DType.INT8)
    build.output(build.add("CLAMP", [x], min_val=0, max_val=127, nan_mode="PROPAGATE", output="y"))
    folder = here / "nets" / "clip"
    folder.mkdir(parents=True)
    write_tosa(build.finish(), folder / "graph.tosa")
    np.save(folder / "input_0.npy", np.array([[1, -2, 3], [-4, 5, -6]], np.int8))
    values = {"scale": np.float32(1), "zero": np.int8(0), "more": np.float32(apart)}
    nodes = [
        helper.make_node("DequantizeLinear", ["data", "scale", "zero"], ["real"]),
        helper.make_node("Relu", ["real"], ["positive"]),
        helper.make_node("Add", ["positive", "more"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "scale", "zero"], ["result"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.INT8, (2, 3)) for name in ("data", "result")]
    constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "clip", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "graph.onnx")
    found = tosaic("dev", "judge", "nets", "--on", "onnxruntime", "--on", "golden")
    assert (found.code, row(found.out, "onnxruntime")[verdict]) == (code, "1")
    assert row(found.out, "golden")["exact"] == "1"


@pytest.mark.nightly
def test_a_cluster_says_what_one_process_says(tosaic, chain, here):
    import distributed

    (here / "wrong").write_text(HEAD + computing(1))
    (here / "wrong").chmod(0o755)
    words = ("dev", "judge", chain, "--on", f"cmd:{here / 'wrong'}")
    alone = tosaic(*words)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        together = tosaic(*words, "--cluster", cluster.scheduler_address)
    assert (together.code, together.out) == (alone.code, alone.out)
    assert row(alone.out, f"cmd:{here / 'wrong'}")["differs"] == "1"


def test_iree_is_optional(tosaic, here):
    """Without it the message says how to install it; with it it computes a graph."""
    found = tosaic("dev", "judge", "random:1", "--on", "iree")
    if importlib.util.find_spec("iree") is None:
        assert found.code == 1
        assert "iree: iree-base-compiler or iree-base-runtime is missing: pip install '" in found.err
        assert "[iree]'" in found.err
    else:
        assert (found.code, row(found.out, "iree")["exact"]) == (0, "1")
