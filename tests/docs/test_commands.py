"""Commands of the pages are ones that `tosaic` has; those of the tutorial and of how-tos run, but for long ones."""

import pathlib
import re
import shlex
import shutil
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tosaic.cli import app

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def commands(page):
    """The words of each fenced command of Tosaic, without comments."""
    for language, block in FENCED.findall(page.read_text()):
        if language:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "&&" not in words and words[:1] == ["tosaic"] and "[" not in line:
                yield words[1 : words.index(";") if ";" in words else None]


LONG = {"verilog", "build", "serve", "explore", "sim", "virtual://ulx3s-45f", "boot-image", "c-kit"}
"""Verbs and targets that build something, or need a board; the nightly tests of boards and the RTL have them."""


def net(path):
    """A small float classifier with an open batch."""
    random = np.random.default_rng(0)
    weights = {"w": random.normal(0, 0.3, (4, 1, 3, 3)), "v": random.normal(0, 0.1, (144, 3))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "w"], ["conv"], "conv1"),
            helper.make_node("Relu", ["conv"], ["relu"], "relu1"),
            helper.make_node("Flatten", ["relu"], ["flat"], "flatten"),
            helper.make_node("MatMul", ["flat", "v"], ["scores"], "dense"),
        ],
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


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
        verb = words[:2] if words[0] == "nnr" else words[:1]
        if tuple(verb) not in known:
            known[tuple(verb)] = call([*verb, "--help"], monkeypatch, capsys)
        code, text, _ = known[tuple(verb)]
        assert code == 0, f"there is no verb {verb}"
        options = [word.split("=")[0] for word in words if re.match(r"--?[A-Za-z]", word)]
        assert [option for option in options if option not in text] == [], words


def test_the_tutorial_does_what_it_says(monkeypatch, capsys, tmp_path):
    text = (ROOT / "docs/tutorial.md").read_text()
    monkeypatch.chdir(tmp_path)
    for name in ("digits.tosa", "images.npz"):
        shutil.copy(ROOT / "examples/digits" / name, name)
    (script,) = re.findall(r'^python -c "(.*)"$', text, re.M)
    exec(script, {})
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], {})
    assert np.load("x.npy").shape == (1, 8, 8, 1)
    printed = ""
    for words in commands(ROOT / "docs/tutorial.md"):
        if not LONG & set(words):
            code, out, error = call(words, monkeypatch, capsys)
            assert code == 0, (words, error)
            printed += out
    shown = [
        line.rstrip() for block in re.findall(r"```text\n(.*?)```", text, re.S) for line in block.splitlines()
    ]
    assert [line for line in shown if line not in [each.rstrip() for each in printed.splitlines()]] == []
    assert pathlib.Path("report.html").exists() and pathlib.Path("compared.html").exists()


@pytest.mark.parametrize("page", ["compressed", "slow_layer", "onnx", "accuracy", "c"])
def test_a_how_to_runs(page, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/digits/digits.tosa", "digits.tosa")
    net("net.onnx")
    samples = np.random.default_rng(1).random((20, 1, 8, 8), np.float32)
    np.savez("calib.npz", image=samples)
    np.savez("test.npz", image=samples, labels=np.zeros(20, np.int64))
    if page == "c":
        np.save("x.npy", np.zeros((1, 8, 8, 1), np.int8))
    ran = 0
    for words in commands(ROOT / f"docs/howto_{page}.md"):
        if not LONG & set(words):
            code, _, error = call(words, monkeypatch, capsys)
            # `check` of a float model ends with 1 where an operator is a float.
            assert code == 0 or words[0] == "check", (words, error)
            ran += 1
    assert ran
