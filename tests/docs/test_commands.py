"""Fenced commands of README, tutorial and how-tos run, or a reason says why not; those of other pages exist."""

import pathlib
import re
import shlex
import shutil
import sys

import numpy as np
import pytest
from page_models import write_data, write_onnx, write_tflite

from tosaic.cli import app

ROOT = pathlib.Path(__file__).parents[2]
TAUGHT = [ROOT / "README.md", ROOT / "docs/tutorial.md", *sorted((ROOT / "docs").glob("howto_*.md"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
ELSEWHERE = {
    r"pip install": "installs packages; tests/test_install.py runs it on a wheel's metadata",
    r"python3 -m venv": "makes the environment that the tests run in",
    r"mkdir work|cp \.\./|python -c ": "test_the_tutorial_does_what_it_says does it in Python",
    r"cc -std=c99": "tests/c_kit/test_c_compiles.py runs it",
    r"\./classify": "needs a UIO device",
    r"cd \w+ && iverilog": "Icarus is not on PyPI; tests/hw/verilog/test_verilog_folder.py runs it where it is",
    r"tosaic c-kit|export PKG_CONFIG_PATH|gcc app\.c|\./app": "tests/c_kit/test_c_desk.py runs the page's commands",
    r"podman": "needs podman; test_site_files.py reads the file",
    r"tosaic serve serial": "needs a board; tests/cli/test_cli_serve.py serves sim://nano",
    r"tosaic run .* --on tcp:": "needs the server above; tests/cli/test_cli_serve.py runs on it",
    r"tosaic build": "takes minutes; `make boards` builds every board, in the nightly",
    r"tosaic \w+ net.pt2|tosaic evaluate .*net.pt2": "needs torch; tests/pytorch/test_pt2_files.py runs it",
}
"""Commands that no test of this file runs: a pattern of the line, and why."""
LONG = {"verilog", "explore", "sim", "virtual://ulx3s-45f"}
"""Verbs and targets that build something: `test_what_takes_long` runs them at night."""


def lines(page):
    """The fenced commands of a page, without comments."""
    for language, block in FENCED.findall(page.read_text()):
        if not language:
            for line in block.replace("\\\n", " ").splitlines():
                yield re.sub(r"\s+#.*", "", line).strip()


def commands(page):
    """The words of each fenced command of Tosaic."""
    for line in lines(page):
        words = shlex.split(line)
        if "&&" not in words and words[:1] == ["tosaic"] and "[" not in line:
            yield words[1 : words.index(";") if ";" in words else None]


def is_elsewhere(words):
    return any(re.match(pattern, "tosaic " + " ".join(words)) for pattern in ELSEWHERE)


def takes_long(words):
    return bool(LONG & set(words))


def is_short(words):
    return not takes_long(words) and not is_elsewhere(words)


def pages_with(chosen):
    """The pages with such a command, but for those with tests of their own (what takes long on howto_board is in
    test_five_minutes.py)."""
    elsewhere = ("howto_board",) if chosen is takes_long else ("tutorial", "howto_tflite")
    found = [page for page in TAUGHT if any(map(chosen, commands(page)))]
    return [page for page in found if page.stem not in elsewhere]


def call(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tosaic", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    done = capsys.readouterr()
    return ended.value.code, done.out, done.err


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verbs_and_options_exist(page, monkeypatch, capsys):
    known = {}
    for words in commands(page):
        verb = words[:2] if words[0] in ("dev", "nnr") else words[:1]
        if tuple(verb) not in known:
            known[tuple(verb)] = call([*verb, "--help"], monkeypatch, capsys)
        code, text, _ = known[tuple(verb)]
        assert code == 0, f"there is no verb {verb}"
        options = [word.split("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]
        assert [option for option in options if option not in text] == [], words


def test_each_command_runs_or_a_reason_says_why_not():
    everything = [line for page in TAUGHT for line in lines(page) if line]
    run = [words for page in TAUGHT for words in commands(page)]
    unknown = [
        line
        for line in everything
        if not any(re.match(each, line) for each in ELSEWHERE) and shlex.split(line)[1:] not in run
    ]
    assert unknown == []
    used = {each for each in ELSEWHERE if any(re.match(each, line) for line in everything)}
    assert set(ELSEWHERE) - used == set()
    named = re.findall(r"tests/[\w/]+\.py", " ".join([*ELSEWHERE.values(), *SCRIPTS.values()]))
    assert named and [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The files that the pages name, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "tests/importers")
    shutil.copytree(ROOT / "examples/digits", "examples/digits")
    for name in ("digits.tosa", "images.npz"):
        shutil.copy(ROOT / "examples/digits" / name, name)
    write_onnx(pathlib.Path("net.onnx"))
    shutil.copy("net.onnx", "model.onnx")
    write_data((1, 8, 8))
    np.save("x.npy", np.zeros((1, 8, 8, 1), np.int8))


def test_the_tutorial_does_what_it_says(files, monkeypatch, capsys):
    text = (ROOT / "docs/tutorial.md").read_text()
    (script,) = re.findall(r'^python -c "(.*)"$', text, re.M)
    exec(script, {})
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], {})
    assert np.load("x.npy").shape == (1, 8, 8, 1)
    printed = ""
    for words in commands(ROOT / "docs/tutorial.md"):
        if is_short(words):
            code, out, error = call(words, monkeypatch, capsys)
            assert code == 0, (words, error)
            printed += out
    shown = [
        line.rstrip() for block in re.findall(r"```text\n(.*?)```", text, re.S) for line in block.splitlines()
    ]
    assert [line for line in shown if line not in [each.rstrip() for each in printed.splitlines()]] == []
    assert pathlib.Path("report.html").exists() and pathlib.Path("compared.html").exists()


@pytest.mark.parametrize("page", pages_with(is_short), ids=lambda page: page.stem)
def test_a_page_runs(page, files, monkeypatch, capsys):
    for words in filter(is_short, commands(page)):
        code, _, error = call(words, monkeypatch, capsys)
        assert code == 0, (words, error)


def test_the_page_of_tflite_runs(files, monkeypatch, capsys):
    """An int8 model first; then net.tflite stands for a float one."""
    page = ROOT / "docs/howto_tflite.md"
    write_data((64,))
    write_tflite(pathlib.Path("net.tflite"), floats=False)
    script = re.search(r"```python\n(.*?)```", page.read_text(), re.S)[1]
    exec(script, {"samples": np.load("test.npz")["image"]})
    assert capsys.readouterr().out.startswith("[[")
    for words in commands(page):
        write_tflite(pathlib.Path("net.tflite"), floats=words[0] == "quantize")
        code, _, error = call(words, monkeypatch, capsys)
        assert code == 0, (words, error)


def scripts(page):
    """The Python of a page, script by script."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def test_the_python_of_the_pages_runs(files, capsys):
    """tests/pytorch/test_pt2_files.py runs the scripts that want torch, test_plugin_options.py the one of CI."""
    shutil.copy("digits.tosa", "model.tosa")
    exec(scripts("README.md")[0].replace('"input"', '"image"'), {"x": np.load("x.npy")})
    assert re.fullmatch(r"2,?184 0\.56\d*\n", capsys.readouterr().out)
    (script,) = scripts("docs/howto_onnx.md")
    exec(script, {})
    assert np.load("calib.npz")["image"].shape == (100, 3, 32, 32)
    (script,) = scripts("docs/howto_board_not_listed.md")
    names: dict[str, object] = {}
    exec(script, names)
    assert names["NPU1"].name == "acme-npu1" and names["NPU1"].memory_bytes == 65536


SCRIPTS = {
    "README": "test_the_python_of_the_pages_runs; tests/pytorch/test_pt2_files.py",
    "tutorial": "test_the_tutorial_does_what_it_says",
    "howto_board_not_listed": "test_the_python_of_the_pages_runs",
    "howto_ci": "test_plugin_options.py",
    "howto_onnx": "test_the_python_of_the_pages_runs",
    "howto_pytorch": "tests/pytorch/test_pt2_files.py",
    "howto_tflite": "test_the_page_of_tflite_runs",
    "howto_waves": "test_what_takes_long",
}
"""Who runs the Python of a page."""


def test_each_script_has_a_test():
    assert {page.stem for page in TAUGHT if scripts(page)} == SCRIPTS.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("page", pages_with(takes_long), ids=lambda page: page.stem)
def test_what_takes_long(page, files, monkeypatch, capsys):
    for words in filter(takes_long, commands(page)):
        code, _, error = call(words, monkeypatch, capsys)
        assert code == 0, (words, error)
    if page.stem == "howto_waves":
        names = {}
        exec(scripts(page)[0], names)
        names["session"].run({"image": np.load("x.npy")})
        assert pathlib.Path("part.vcd").stat().st_size > 10_000


@pytest.mark.parametrize("page", TAUGHT[2:], ids=lambda page: page.stem)
def test_a_how_to_is_short_and_has_a_picture(page):
    text = page.read_text()
    assert len(re.sub(r"^```\w+\n.*?^```$", "", text, flags=re.M | re.S).split()) <= 400  # without programs
    assert len(re.findall(r"^!\[[^\]]+\]\(figures/[\w.]+\)$", text, re.M)) == 1
