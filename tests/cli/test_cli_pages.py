"""Every page says how it was made: command, date, versions, digests of model and program."""

import datetime
import hashlib
import html
import json
import re

import numpy as np
import pytest
from chromium import browser_page

import tosaic as api


def facts(page):
    """What is said at the end of a page."""
    said = html.unescape(page.read_text().split("How this page was made")[1])
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", said))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(autouse=True)
def time(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")


DATE = "2026-09-21 14:13 UTC"


def test_a_run(tosaic, here):
    """The program's digest is that of the file which `tosaic compile` writes."""
    command = (
        "run",
        "tiny.tosa",
        "-i",
        "x.npy",
        "--config",
        "nano",
        "--report",
        "r.html",
        "--stats",
        "s.json",
    )
    assert tosaic(*command, "--on", "emulator").code == 0
    assert tosaic("compile", "tiny.tosa", "--config", "nano", "-o", "tiny.tsc").code == 0
    said = facts(here / "r.html")
    assert said.pop("versions").startswith(f"Tosaic {api.__version__}, Amaranth ")
    assert said == {
        "command": "tosaic run tiny.tosa -i x.npy --config nano --report r.html --stats s.json --on emulator",
        "date": DATE,
        "model, SHA-256": sha256(here / "tiny.tosa"),
        "program, SHA-256": sha256(here / "tiny.tsc"),
    }
    assert {**said, "versions": ...} == {**json.loads((here / "s.json").read_text())["made"], "versions": ...}


def test_a_page_of_kept_figures_says_how_the_run_was_made(tosaic, here):
    for name in ("a", "b"):
        run = ("run", "tiny.tosa", "-i", "x.npy", "--on", "emulator", "--config", "nano")
        assert tosaic(*run, "--stats", f"{name}.json").code == 0
    assert tosaic("report", "a.json", "-o", "a.html").code == 0
    said = facts(here / "a.html")
    assert said["command"].endswith("--stats a.json") and said["model, SHA-256"] == sha256(here / "tiny.tosa")
    assert tosaic("report", "a.json", "b.json", "-o", "ab.html").code == 0
    said = facts(here / "ab.html")
    assert said["command"] == "tosaic report a.json b.json -o ab.html"
    assert said["after, command"].endswith("--stats b.json")
    assert said["before, program, SHA-256"] == said["after, program, SHA-256"]


def test_a_damaged_record_is_told(tosaic, refused, here):
    run = ("run", "tiny.tosa", "-i", "x.npy", "--on", "emulator", "--config", "nano", "--stats", "s.json")
    assert tosaic(*run).code == 0
    stats = json.loads((here / "s.json").read_text())
    for damaged in ("yesterday", {"date": 5}):
        (here / "d.json").write_text(json.dumps({**stats, "made": damaged}))
        assert refused("report", "d.json", "-o", "d.html").startswith("d.json ")


def test_an_evaluation_and_a_quantization(tosaic, here, classifier):
    command = ("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1")
    assert tosaic(*command, "--report", "q.html").code == 0
    said = facts(here / "q.html")
    assert (said["command"], said["date"]) == (f"tosaic {' '.join(command)} --report q.html", DATE)
    assert said["float model, SHA-256"] == sha256(here / "net.onnx")
    assert said["model, SHA-256"] == sha256(here / "net.tosa")
    np.savez("test.npz", x=np.zeros((3, 4), np.float32))
    assert tosaic("evaluate", "net.tosa", "-d", "test.npz", "--report", "e.html").code == 0
    assert facts(here / "e.html")["model, SHA-256"] == sha256(here / "net.tosa")


def test_a_graph_in_memory_has_no_file_and_the_date_is_now(here, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    session = api.Session(api.Session("tiny.tosa", "golden").graph, "emulator", "nano")
    session.run({"image": np.load("x.npy")})
    before = datetime.datetime.now(datetime.UTC).replace(second=0, microsecond=0, tzinfo=None)
    api.write_report("r.html", "tiny", session)
    said = facts(here / "r.html")
    assert "model, SHA-256" not in said and "program, SHA-256" in said
    assert datetime.datetime.strptime(said["date"], "%Y-%m-%d %H:%M UTC") >= before


@pytest.mark.nightly
def test_a_phone_shows_the_pages(tosaic, here, classifier, tmp_path_factory):
    """As wide as 390 pixels, nothing but tables and charts scrolls sideways, and the text has 14 pixels."""
    quantize = ("quantize", "net.onnx", "-c", "calib.npz", "-o", "net.tosa", "--shape", "N=1")
    run = ("run", "tiny.tosa", "-i", "x.npy", "--on", "emulator", "--config", "nano", "--stats", "s.json")
    np.savez("test.npz", x=np.zeros((3, 4), np.float32), labels=np.arange(3))
    for command in (
        (*quantize, "--report", "quantized.html"),
        (*run, "--report", "run.html"),
        ("report", "s.json", "s.json", "-o", "compared.html"),
        ("evaluate", "net.tosa", "-d", "test.npz", "--report", "evaluated.html"),
    ):
        assert tosaic(*command).code == 0, command
    with browser_page(tmp_path_factory.mktemp("browser")) as page:
        size = dict(width=390, height=844, deviceScaleFactor=2, mobile=True)
        page.order("Emulation.setDeviceMetricsOverride", **size)
        for name in ("quantized", "run", "compared", "evaluated"):
            page.order("Page.navigate", url=(here / f"{name}.html").as_uri())
            page.until(
                f"document.title && location.href.endsWith('{name}.html') && document.readyState == 'complete'"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
            assert (
                page.evaluate("parseFloat(getComputedStyle(document.querySelector('main p')).fontSize)") >= 14
            )
        assert page.errors == []
