"""Five minutes of five people (PyTorch, TFLite, FPGA, CI, C): README's how-tos as shell scripts, from the text itself.

Commands run in bash, in the order of the page, in a folder that has the files which the page says are yours. Python
goes on from block to block of a page, the test of the CI page is run by pytest; `app.c` is the C program of its page.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from page_models import write_data, write_tflite

import tosaic
from tosaic.compiler.ir import DType, GraphBuilder, write_tosa

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
ELSEWHERE = {
    r"pip install": "installs what the tests have",
    r"podman": "needs podman",
    r"tosaic build": "takes minutes; `make boards` builds every board",
    r"cc -std=c99|\./classify": "needs a UIO device",
    r"cd bench && iverilog": "Icarus is not on PyPI; tests/hw/verilog/test_verilog_folder.py runs it where it is",
}
"""Commands that are left out: a pattern of the line, and why."""


@dataclasses.dataclass(frozen=True)
class Person:
    """Somebody whose way begins at a page."""

    page: str
    prints: str
    """What the script prints, as a pattern."""
    leaves: tuple[str, ...]
    """Files that it leaves."""


PEOPLE = {
    "pytorch": Person(
        "howto_pytorch", r"\[\[[^\]]*\]\] \d+\n", ("report.html", "quantized.html", "net.tosa")
    ),
    "tflite": Person(
        "howto_tflite", r"bit-exact: 1 outputs? equal golden", ("report.html", "quantized.html")
    ),
    "fpga": Person(
        "howto_board",
        r"bit-exact: 1 outputs? equal golden",
        ("out/tosaic.f", "out/tosaic.core", "bench/tosaic_bench.v"),
    ),
    "ci": Person("howto_ci", r"1 passed", ("tosaic-cycles.json",)),
    "c": Person("howto_c", r"class \d after \d+ cycles", ("app", "digits.h")),
}


def test_readme_names_the_five():
    line = (ROOT / "README.md").read_text().split("**Five minutes for you**")[1].split("\n\n")[0]
    assert re.findall(r"docs/(\w+)\.md", line) == [person.page for person in PEOPLE.values()]


def script(page: str) -> str:
    """The commands of a page."""
    return "\n".join(_commands(page, (ROOT / f"docs/{page}.md").read_text()))


def _commands(page: str, text: str) -> Iterator[str]:
    for language, block in BLOCK.findall(text):
        if not language:
            lines = block.replace("\\\n", " ").splitlines()
            kept = [line for line in lines if not any(re.match(each, line) for each in ELSEWHERE)]
            # A model in floats stands for the file while it is quantized.
            floats = page == "howto_tflite" and any(line.startswith("tosaic quantize") for line in kept)
            yield from ["cp floats.tflite net.tflite", *kept, "cp int8.tflite net.tflite"] if floats else kept
        elif language == "python" and "def test_" in block:
            yield f"cat > test_my_network.py <<'END'\n{block}END"
            yield from ("pytest -q --tosaic-update-cycles", "pytest -q --tosaic-max-cycles-regression 2")
        elif language == "python":
            yield f"cat >> script.py <<'END'\n{block}END\npython script.py"
        elif language == "c" and "int main" in block:
            yield f"cat > app.c <<'END'\n{block}END"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the pages say is yours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "tests/importers")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    digits = ROOT / "examples/digits/digits.tosa"
    shutil.copy(digits, "digits.tosa")
    np.save("x.npy", np.zeros((1, 8, 8, 1), np.int8))
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize("name", PEOPLE)
def test_five_minutes(name, folder):
    person = PEOPLE[name]
    prepare(name)
    commands = script(person.page)
    assert len(re.findall(r"^(?:tosaic|python|pytest|gcc) ", commands, re.M)) >= 2
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(person.prints, done.stdout), done.stdout
    assert [path for path in person.leaves if not (folder / path).exists()] == []
    if name == "c":
        image = {"image": np.load("x.npy")}
        (scores,) = tosaic.run("digits.tosa", image, "emulator", config="nano").values()
        assert f"class {scores.argmax()} after" in done.stdout


def prepare(name: str) -> None:
    """A network and data of one's own."""
    if name == "pytorch":
        pytest.importorskip("executorch")
        samples = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
        np.savez("calib.npz", input=samples)
        np.savez("test.npz", input=samples, labels=np.zeros(20, np.int64))
    elif name == "tflite":
        write_data((64,))
        write_tflite(pathlib.Path("floats.tflite"), floats=True)
        write_tflite(pathlib.Path("int8.tflite"), floats=False)
        shutil.copy("int8.tflite", "net.tflite")
    elif name == "ci":
        build = GraphBuilder()
        x = build.input("input", (1, 8, 8, 1), DType.INT8)
        build.output(build.add("CLAMP", [x], min_val=0, max_val=127, nan_mode="PROPAGATE"))
        write_tosa(build.finish(), "model.tosa")
    elif name == "c" and shutil.which("pkg-config") is None:
        pytest.skip("there is no pkg-config")
