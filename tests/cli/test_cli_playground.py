"""The playground's pages: what they hold, and what a browser does with them."""

import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from tosaic.compiler.build import compile_graph
from tosaic.compiler.ir.tosa_file import read_tosa
from tosaic.compiler.program import Program
from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import EVENT_COUNTERS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits"
TOP_LEVEL = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)
pytestmark = pytest.mark.xdist_group("nano")


@pytest.fixture
def single(tosaic, here):
    done = tosaic("playground", "-o", "single", "digits", "--config", "nano", "--single")
    assert done.code == 0, done.err
    return here / "single/playground.html"


def test_one_file_with_all(single):
    """It loads nothing."""
    text = single.read_text()
    assert len(text) <= 300_000
    assert not re.findall(r"(?:src|href)=\"(?!data:)|import .* from|fetch\(", text)


def test_a_folder_for_a_server(here, tosaic):
    """Programs, machines and what the page must know of them."""
    samples = np.load(DIGITS / "images.npz")["inputs"][:2]
    np.savez(here / "two.npz", image=samples)
    model = f"{DIGITS / 'digits.tosa'}={here / 'two.npz'}"
    done = tosaic("playground", "-o", here / "page", "chat", model, "--config", "nano")
    assert done.code == 0, done.err
    page = here / "page"
    # In the page that is one file they share a scope.
    scripts = [path for path in page.glob("*.js") if path.stem not in ("worker", "machine", "files")]
    names = [name for path in scripts for name in TOP_LEVEL.findall(path.read_text())]
    assert len(names) > 30 and len(names) == len(set(names))
    catalog = json.loads((page / "catalog.json").read_text())
    assert [demo["kind"] for demo in catalog["demos"]] == ["chat", "tensor"]
    assert catalog["events"] == list(EVENT_COUNTERS)
    assert (page / catalog["machines"][0]["wasm"]).read_bytes()[:4] == b"\0asm"
    for demo in catalog["demos"]:
        assert Program.load(page / demo["programs"]["nano"]).config == CONFIGS["nano"]
    assert [each["image"] for each in catalog["demos"][1]["samples"]] == samples.reshape(2, -1).tolist()


def test_samples_that_do_not_fit(here, tosaic):
    np.savez(here / "wrong.npz", picture=np.zeros((1, 64), np.int8))
    model = f"{DIGITS / 'digits.tosa'}={here / 'wrong.npz'}"
    done = tosaic("playground", "-o", here / "page", model, "--config", "nano")
    assert (done.code, done.err.splitlines()[-1]) == (
        1,
        f"tosaic: error: {here / 'wrong.npz'}: it has no array 'image'; it has 'picture'",
    )


def test_a_program_of_another_machine(here, tosaic):
    compile_graph(read_tosa(DIGITS / "digits.tosa"), CONFIGS["small"]).save(here / "digits.tsc")
    done = tosaic("playground", "-o", here / "page", here / "digits.tsc", "--config", "nano")
    assert done.code == 1
    assert done.err.splitlines()[-1].endswith("this program is for small: add --config small")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    "shape, order", [((1, 3, 4, 5), (0, 2, 3, 1)), ((2, 3, 4), (1, 0, 2)), ((3, 2), (1, 0))]
)
def test_a_page_finds_elements_that_memory_has_in_another_order(shape, order, tmp_path):
    script = tmp_path / "places.mjs"
    port = json.dumps({"shape": shape, "order": order})
    script.write_text(
        f'import {{places}} from "{ROOT}/driver/playground/templates/machine.js";\n'
        f"console.log(JSON.stringify(places({port})));"
    )
    done = subprocess.run(["node", script], capture_output=True, text=True, check=True)
    assert (
        json.loads(done.stdout) == np.arange(np.prod(shape)).reshape(shape).transpose(order).ravel().tolist()
    )
