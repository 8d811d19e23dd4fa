"""What verbs end with: the command that comes next, which works when it is followed, and the page in a browser."""

import os
import re
import shlex
import subprocess
import sys

import numpy as np
import page_models
import pytest

ON = ("--on", "emulator")


def next_of(outcome):
    """The words of the command that the output ends with."""
    assert (outcome.code, outcome.err) == (0, ""), outcome
    last = outcome.out.splitlines()[-1]
    assert last.startswith("next: tosaic "), last
    return shlex.split(last)[2:]


def test_each_command_leads_to_the_next(tosaic, here, browser):
    """From a float model to a page of its run, by the commands that are told alone."""
    page_models.write_onnx(here / "net.onnx")
    np.savez("calib.npz", image=np.random.default_rng(0).normal(size=(16, 1, 1, 8, 8)).astype(np.float32))
    words = next_of(tosaic("import", "net.onnx", "-o", "net.tosa"))
    assert words == ["quantize", "net.tosa", "-c", "calib.npz", "-o", "net_int8.tosa"]
    outcome = tosaic(*words)
    last = outcome.out.splitlines()[-1]
    assert (outcome.code, last) == (0, "next: tosaic run net_int8.tosa --random 1 --check")
    words = next_of(tosaic(*shlex.split(last)[2:]))
    assert words == ["run", "net_int8.tosa", "--random", "1", "--check", "--open"]
    words = next_of(tosaic(*words))
    assert (here / "report.html").is_file() and len(browser()) == 1
    assert words == ["check", "net_int8.tosa"]
    assert next_of(tosaic(*words)) == ["run", "net_int8.tosa", "--random", "1", "--check"]


def test_options_of_a_check_are_those_of_the_next_run(tosaic):
    words = next_of(tosaic("check", "tiny.tosa", "--config", "small", "--no-quantized", "--set", "rows=5"))
    assert words == "run tiny.tosa --config small --set rows=5 --random 1 --check".split()
    assert tosaic(*words).code == 0


def test_a_program_is_run_and_verified_next(tosaic, browser):
    words = next_of(tosaic("compile", "tiny.tosa", "-o", "a b.tsc"))
    assert words == ["run", "a b.tsc", "--random", "1"]
    words = next_of(tosaic(*words, "--report", "page.html", *ON))
    assert words == ["dev", "verify", "a b.tsc"] and browser() == []
    assert tosaic(*words).code == 0


def test_pages_of_runs(tosaic, here, browser):
    assert tosaic("run", "tiny.tosa", "-i", "x.npy", "--stats", "a.json", *ON).code == 0
    assert next_of(tosaic("report", "a.json", "--open", "-o", "p.html")) == (
        ["report", "a.json", "--compare", "LATER.json", "--open"]
    )
    assert browser() == [(here / "p.html").as_uri()]
    named = tosaic("report", "a.json", "--compare", "a.json", "-o", "compared.html")
    placed = tosaic("report", "a.json", "a.json", "-o", "compared.html")
    assert (named.code, named.out) == (0, placed.out)
    assert named.out.startswith("2,") or re.match(r"[\d,]+ cycles before, [\d,]+ after: \+0", named.out)


def test_a_table_of_cycles_leads_to_the_page_of_a_run(tosaic, here):
    words = next_of(tosaic("bench", "tiny.tosa", "--config", "nano", *ON))
    assert words == "run tiny.tosa --config nano --random 1 --report report.html".split()
    assert tosaic(*words).code == 0 and (here / "report.html").is_file()


def test_a_later_run_is_given_once(refused):
    assert refused("report", "a.json", "b.json", "--compare", "b.json", code=2).startswith(
        "Invalid value: give the later run once: as B.json or by --compare"
    )


def test_evaluate_opens_its_page(tosaic, here, browser):
    with np.load(os.path.join(os.path.dirname(__file__), "../../examples/digits/images.npz")) as images:
        np.savez("test.npz", image=images["inputs"][:4].reshape(4, 1, 8, 8, 1), labels=images["labels"][:4])
    words = next_of(tosaic("evaluate", "tiny.tosa", "--data", "test.npz"))
    assert words == ["evaluate", "tiny.tosa", "--data", "test.npz", "--open"]
    assert tosaic(*words).code == 0
    assert browser() == [(here / "report.html").as_uri()]


def test_where_there_is_no_browser(here):
    """The run is done, its page is written, and a warning says where it is."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tosaic.cli.app import main; main()",
            *("run", "tiny.tosa", "--random", "1", "--report", "r.html", "--open"),
        ],
        env=os.environ | {"BROWSER": "no-such-browser-here", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stderr == (f"tosaic: warning: no browser was found; open {(here / 'r.html').as_uri()}\n")
    assert (here / "r.html").is_file()


@pytest.fixture
def browser(here, monkeypatch):
    """A browser that keeps the addresses it is told to open; a function that gives and forgets them."""
    import webbrowser

    opened = here / "opened.txt"
    program = here / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(opened))}\n')
    program.chmod(0o755)
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setenv("BROWSER", f"{program} %s")

    def addresses():
        found = opened.read_text().splitlines() if opened.exists() else []
        opened.unlink(missing_ok=True)
        return found

    return addresses
