"""Commands of the pages are ones that `tosaic` has, and the tutorial's do what it says."""

import pathlib
import re
import shlex
import shutil
import sys

import numpy as np
import pytest

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
        if words[0] != "verilog" and "sim" not in words:
            code, out, error = call(words, monkeypatch, capsys)
            assert code == 0, (words, error)
            printed += out
    shown = [
        line.rstrip() for block in re.findall(r"```text\n(.*?)```", text, re.S) for line in block.splitlines()
    ]
    assert [line for line in shown if line not in [each.rstrip() for each in printed.splitlines()]] == []
    assert pathlib.Path("report.html").exists() and pathlib.Path("compared.html").exists()
