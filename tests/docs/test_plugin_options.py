"""The pytest plugin in a suite of its own: properties of tests, and cycles that must not grow."""

import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np

from tosaic.compiler.ir import DType, Graph, Operator, Tensor, write_tosa

PAGE = pathlib.Path(__file__).parents[2] / "docs/howto_ci.md"

SUITE = """
import os
import numpy as np
from tosaic.compiler.ir import DType, GraphBuilder

def test_net(cosim):
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("x", (1, 64), DType.INT32)]))
    latency = int(os.environ["LATENCY"])
    cosim(build.finish(), {"x": np.zeros((1, 64), np.int32)}, target="emulator", memory_latency=latency)
"""


def run(folder, monkeypatch, latency, *options, suite=SUITE):
    (folder / "test_net.py").write_text(suite)
    (folder / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setenv("LATENCY", str(latency))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    # Where Tosaic is not installed, its plugin is not known by an entry point.
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_cycles_are_kept_reported_and_must_not_grow(tmp_path, monkeypatch):
    done = run(tmp_path, monkeypatch, 50, "--tosaic-update-cycles", "--junit-xml=j.xml")
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = json.loads((tmp_path / "tosaic-cycles.json").read_text()).items()
    assert kept[0] == "test_net.py::test_net"
    properties = {
        each.get("name"): each.get("value") for each in ElementTree.parse(tmp_path / "j.xml").iter("property")
    }
    assert properties["tosaic_cycles"] == str(kept[1])
    assert (properties["tosaic_target"], properties["tosaic_config"]) == ("emulator", "base")
    slower = run(tmp_path, monkeypatch, 500, "--tosaic-max-cycles-regression", "2")
    assert slower.returncode == 1
    (line,) = [line for line in slower.stdout.splitlines() if line.startswith("FAILED")]
    assert (
        f"more than the {kept[1]:,} that are kept (at most 2 %)" in slower.stdout
        and "Traceback" not in slower.stdout
    )
    assert "test_net.py::test_net" in line


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "tosaic-cycles.json").write_text("{")
    done = run(tmp_path, monkeypatch, 50, "--tosaic-max-cycles-regression", "2")
    assert done.returncode != 0 and "tosaic-cycles.json is no JSON; remove it" in done.stdout + done.stderr


def test_the_test_of_the_page_runs(tmp_path, monkeypatch):
    graph = Graph("main", ["input"], ["output"])
    graph.tensors = {name: Tensor(name, (4,), DType.INT32) for name in ("input", "output")}
    graph.operators = [Operator("ABS", ["input"], ["output"])]
    write_tosa(graph, tmp_path / "model.tosa")
    np.save(tmp_path / "x.npy", np.array([-3, 0, 2, 5], np.int32))
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    done = run(tmp_path, monkeypatch, 50, suite=f'import numpy\nx = numpy.load("x.npy")\n\n\n{script}')
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
