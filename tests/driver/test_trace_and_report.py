"""`--trace` and `--report`: what a run's timeline says, and that a browser shows the page."""

import json
import re

import numpy as np
import pytest
from browser import colours_of

from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.driver.report import write_report
from tosaic.driver.session import Session
from tosaic.driver.trace import TRACKS, write_trace
from tosaic.driver.units import unit_figures


@pytest.fixture(scope="module")
def session() -> Session:
    """A convolution and an elementwise layer on the emulator, run once."""
    build = GraphBuilder()
    x = build.input("x", (1, 12, 12, 16), DType.INT8)
    weights = build.constant(np.random.default_rng(1).integers(-9, 9, (24, 3, 3, 16)), DType.INT8)
    bias = build.constant(np.zeros(24, np.int64), DType.INT32)
    zero = build.constant(np.zeros(1, np.int64), DType.INT8)
    y = build.add(
        "CONV2D",
        [x, weights, bias, zero, zero],
        pad=[1, 1, 1, 1],
        stride=[1, 1],
        dilation=[1, 1],
        acc_type=DType.INT32,
        local_bound=False,
    )
    build.output(build.add("ABS", [y]))
    made = Session(build.finish(), "emulator", "base", optimize=False)
    made.run({"x": np.ones((1, 12, 12, 16), np.int8)})
    return made


def test_slices_cover_the_work(session):
    timeline = session.timeline()
    assert {piece.unit for piece in timeline} == set(TRACKS)
    for unit in ("ARRAY", "VECTOR"):
        own = [piece for piece in timeline if piece.unit == unit]
        assert all(a.end <= b.start for a, b in zip(own, own[1:], strict=False))
    assert all(0 <= piece.start < piece.end <= session.stats["cycles"] for piece in timeline)
    moved = sum(piece.bytes for piece in timeline if piece.unit == "STORE")
    assert moved == 12 * 12 * 24 * 4
    busy = sum(piece.end - piece.start for piece in timeline if piece.unit == "ARRAY")
    counters = session.stats["counters"]
    stalls = ("array_stall_am", "array_stall_vector", "array_stall_weights")
    assert busy == counters["array_active"] + sum(counters[stall] for stall in stalls)


def test_each_piece_tells_its_layer(session):
    """The array's are the convolution's, layer 0; VECTOR takes its sums, and works on the other layer."""
    layers = {unit: {piece.layer for piece in session.timeline() if piece.unit == unit} for unit in TRACKS}
    assert layers["ARRAY"] == {0} and layers["VECTOR"] == {0, 1} and layers["STORE"] == {1}


def test_trace_events(session, tmp_path):
    write_trace(tmp_path / "t.json", session.stats, session.timeline())
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    layers = [event for event in slices if event["tid"] == 0]
    assert [event["dur"] for event in layers] == [layer["cycles"] for layer in session.stats["layers"]]
    assert len(slices) == len(layers) + len(session.timeline())
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert names == ["layers", *TRACKS]


def test_no_slices_of_a_trace_overlap(session, tmp_path):
    """Perfetto drops those that overlap another one of their track: GOs of LOAD do in the machine."""
    write_trace(tmp_path / "t.json", session.stats, session.timeline())
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    loads = [piece for piece in session.timeline() if piece.unit == "LOAD"]
    assert any(a.end > b.start for a, b in zip(loads, loads[1:], strict=False))
    for track in range(1 + len(TRACKS)):
        spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == track)
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))


def test_trace_has_counters(session, tmp_path):
    write_trace(tmp_path / "t.json", session.stats, session.timeline())
    trace = json.loads((tmp_path / "t.json").read_text())
    assert trace["otherData"]["counters"] == session.stats["counters"]
    tracks = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            tracks.setdefault(event["name"], []).append((event["ts"], *event["args"].values()))
    assert tracks.keys() == {f"{unit} busy" for unit in TRACKS} | {
        f"{unit} bytes per cycle" for unit in ("LOAD", "STORE")
    } | {f"{unit} in all" for unit in (*TRACKS, "SEQUENCER")}
    cycles, samples = session.stats["cycles"], tracks["STORE bytes per cycle"]
    ends = [start for start, _ in samples[1:]] + [cycles]
    moved = sum(rate * (end - start) for (start, rate), end in zip(samples, ends, strict=True))
    assert moved == pytest.approx(12 * 12 * 24 * 4, rel=0.01)
    assert max(percent for _, percent in tracks["ARRAY busy"]) == 100


def test_a_unit_s_shares_are_its_counters(session):
    stats = session.stats
    units = stats["units"]
    assert list(units) == [*TRACKS, "SEQUENCER"]
    assert all(sum(figures["cycles"].values()) == stats["cycles"] for figures in units.values())
    assert units["ARRAY"]["cycles"]["multiplies"] == stats["counters"]["array_active"]
    assert units["VECTOR"]["cycles"]["waits for ARRAY"] == stats["counters"]["vector_stall_array"]
    assert units["STORE"]["bytes"] == stats["dram_write_bytes"]
    assert units["LOAD"]["bytes"] + units["SEQUENCER"]["bytes"] == stats["dram_read_bytes"]


def test_shares_never_exceed_the_run():
    counters = {
        "store_busy": 10,
        "store_beats": 4,
        "store_stall_bus": 3,
        "store_stall_am": 1,
        "store_wait": 95,
    }
    (figures,) = unit_figures(counters, 100, 16)
    assert [(share.kind, share.cycles) for share in figures.shares] == [
        ("work", 4),
        ("stall", 3),
        ("stall", 1),
        ("other", 2),
        ("wait", 90),
    ]
    assert figures.bytes == 64
    assert unit_figures({}, 100, 16) == []


def test_page_has_all_its_parts(session, tmp_path):
    write_report(tmp_path / "r.html", "a <model>", session)
    page = (tmp_path / "r.html").read_text()
    assert page.startswith("<!doctype html>") and "<h1>a &lt;model&gt; on Tosaic</h1>" in page
    for title in ("Units", "Timeline", "Roofline", "Activation memory", "Layers"):
        assert re.search(f'<h2 id="[a-z]+">{title}</h2>', page)
    assert "http" not in page.replace("http-equiv", "")  # opens offline
    assert "ARRAY: multiplies, " in page and "VECTOR: waits for ARRAY, " in page
    assert all(name.replace("_", " ") in page for name in session.stats["counters"])
    data = json.loads(page.split("const DATA=")[1].split(";\n")[0])
    assert data["cycles"] == session.stats["cycles"]
    assert sum(map(len, data["tracks"])) == len(session.timeline()) + len(session.stats["layers"])
    for track in data["tracks"]:
        assert all(a[0] + a[1] <= b[0] for a, b in zip(track, track[1:], strict=False))


def test_golden_has_no_timeline(session, tmp_path):
    golden = Session(session.graph, "golden")
    golden.run({"x": np.ones((1, 12, 12, 16), np.int8)})
    assert golden.timeline() == []
    write_report(tmp_path / "g.html", "golden", golden)
    assert "Timeline" not in (tmp_path / "g.html").read_text()


def test_a_browser_shows_the_report(session, tmp_path):
    write_report(tmp_path / "r.html", "browser", session)
    drawn = colours_of(tmp_path / "r.html", tmp_path)
    assert len(drawn) > 20
    # The colours of the timeline's units: the script has run.
    assert {(0x2F, 0x6F, 0xB3), (0x3F, 0x9D, 0x78)} <= drawn


def test_a_machine_without_counters_reports_cycles_and_layers(session, tmp_path):
    made = Session(session.graph, "emulator", "base,event_counters=0", optimize=False)
    made.run({"x": np.ones((1, 12, 12, 16), np.int8)})
    assert (made.stats["cycles"], made.stats["layers"]) == (session.stats["cycles"], session.stats["layers"])
    assert (made.stats["counters"], made.stats["units"]) == ({}, {})
    write_report(tmp_path / "report.html", "no counters", made)
    assert "array_active" not in (tmp_path / "report.html").read_text()
