"""The report's figures: layers and what they lose, the memory map, two runs side by side, what notebooks show."""

import json
import re

import numpy as np
import pytest

from tosaic.compiler.ir import DType, GraphBuilder
from tosaic.compiler.memory_history import MemoryBlock
from tosaic.driver.layer_figures import layer_figures, worst_layers
from tosaic.driver.limits import Limit, limit, pieces_of_layers
from tosaic.driver.pages import bytes_shown, share_shown, write_page
from tosaic.driver.quantize.histogram import BINS, Histogram
from tosaic.driver.report import RunReport, SavedRun, compare_runs, read_run, write_comparison, write_run
from tosaic.driver.report.memory_map import memory_map
from tosaic.driver.report.roofline import roofline
from tosaic.driver.session import Session
from tosaic.errors import InputError
from tosaic.hw.config import CONFIGS
from tosaic.sim.result import Slice

TIMELINE = [Slice("LOAD", "load", 0, 60, 600), Slice("ARRAY", "convolution", 50, 150)]


def run_of(*layers, **more):
    """Statistics of a run whose layers are (name, operator, cycles, MACs)."""
    cycles = sum(layer[2] for layer in layers)
    macs = sum(layer[3] for layer in layers)
    return {
        "config": "base",
        "macs_per_cycle": 256,
        "target": "sim",
        "cycles": cycles,
        "macs": macs,
        "mac_utilization": macs / cycles / 256,
        "dram_read_bytes": 1000,
        "dram_write_bytes": 16,
        "bit_exact": None,
        "memory_bandwidth": 16,
        "memory_latency": 50,
        "layers": [dict(zip(("name", "op", "cycles", "macs"), layer, strict=True)) for layer in layers],
        **more,
    }


def test_a_layer_s_figures_are_those_of_its_cycles():
    stats = run_of(("a", "CONV2D", 100, 12800), ("b", "ADD", 50, 0))
    first, second = layer_figures(stats, 256, TIMELINE)
    assert (first.start, first.cycles, first.bytes, first.lost, first.utilization) == (0, 100, 600, 50, 0.5)
    assert (second.number, second.start, second.end, second.bytes, second.lost) == (1, 100, 150, 0, 50)
    assert str(first.limit) == "reading external memory: LOAD 60% busy"
    assert first.limit.short == "LOAD 60%"
    assert layer_figures(stats, 256)[0].bytes is None


def test_the_worst_layers_lose_the_most_cycles():
    stats = run_of(
        ("full", "CONV2D", 900, 900 * 256), ("half", "CONV2D", 400, 200 * 256), ("add", "ADD", 90, 0)
    )
    assert [(layer.name, layer.lost) for layer in worst_layers(layer_figures(stats, 256))] == [
        ("half", 200),
        ("add", 90),
    ]


def test_pieces_belong_to_every_layer_they_reach_into():
    pieces = pieces_of_layers([10, 10, 30], [Slice("LOAD", "x", 5, 12), Slice("ARRAY", "y", 10, 30)])
    assert [[piece.name for piece in layer] for layer in pieces] == [["x"], [], ["x", "y"]]
    assert pieces_of_layers([], TIMELINE) == []


def test_ways_out():
    array = limit([Slice("ARRAY", "x", 0, 100)], 0, 100)
    assert array.way_out(0.95).startswith("The multipliers are busy")
    assert "only 30% of its multipliers" in array.way_out(0.3)
    assert "--memory-bandwidth" not in array.way_out(0.3)
    assert "More bytes per cycle" in Limit({"LOAD": 0.9}, True).way_out(0.5)
    waiting = limit([], 0, 100)
    assert waiting.short == "waiting" and waiting.way_out(0.0).startswith("Its steps are short")


def test_the_memory_map_has_the_program_s_layers_below_it():
    config = CONFIGS["base"]
    blocks = [MemoryBlock("x", 0, 4096, 0, 1), MemoryBlock("y", config.am_bank_bytes, 2048, 1, 2)]
    found = memory_map(blocks, ["conv", "relu", "pool"], config)
    assert [(tick.text, tick.tip) for tick in found.layers] == [("0", "conv"), ("1", "relu"), ("2", "pool")]
    assert found.peak == "6 KiB of 256 KiB in layer 1 (relu)"
    assert [tick.text for tick in found.addresses] == ["0 B", "4 KiB", "64 KiB", "66 KiB", "256 KiB"]
    first, second = found.rectangles
    assert first.tip == "x: 4,096 bytes at 0x0, layers 0 (conv) to 1 (relu)"
    assert first.width == second.width and first.hue != second.hue
    many = memory_map(blocks, ["layer"] * 400, config)
    assert len(many.layers) < 40 and [tick.text for tick in many.layers[:2]] == ["0", "13"]


def test_the_memory_map_is_filled_by_what_is_held():
    """However little that is: addresses that are never used are strips of one height."""
    config = CONFIGS["base"]
    blocks = [
        MemoryBlock("x", 0, 64, 0, 1),
        MemoryBlock("y", 32, 64, 1, 1),
        MemoryBlock("z", 65536, 32, 1, 2),
    ]
    found = memory_map(blocks, ["conv", "relu", "pool"], config)
    assert [strip.tip for strip in found.unused] == [
        "63.9 KiB that no layer uses",
        "192.0 KiB that no layer uses",
    ]
    (height,) = {strip.height for strip in found.unused}
    held = [each.height for each in found.rectangles]
    assert sum(held[:2]) * 96 / 128 + held[2] == pytest.approx(300 - 2 * height)
    assert held[0] == held[1] == pytest.approx(2 * held[2]) and height < 20
    assert found.rectangles[2].y + held[2] == pytest.approx(found.unused[0].y)
    whole = memory_map([MemoryBlock("x", 0, config.am_bytes, 0, 0)], ["conv"], config)
    assert (whole.unused, whole.rectangles[0].height) == ([], 300)


def test_the_roofline_needs_bytes():
    stats = run_of(("a", "CONV2D", 100, 12800), ("b", "ADD", 50, 0))
    assert roofline(layer_figures(stats, 256), 256, 16) is None
    (dot,) = roofline(layer_figures(stats, 256, TIMELINE), 256, 16).dots
    assert dot.tip == "a (CONV2D): 100 cycles, 128.0 MACs per cycle, 600 bytes"


def test_two_runs_layer_by_layer():
    before = SavedRun("old", run_of(("a", "CONV2D", 100, 9), ("b", "ADD", 50, 0), ("c", "TABLE", 7, 0)))
    after = SavedRun(
        "new", run_of(("a", "CONV2D", 80, 9), ("x", "MUL", 5, 0), ("c", "TABLE", 7, 0), config="large")
    )
    found = compare_runs(before, after)
    assert [(each.name, each.before, each.after, each.difference) for each in found.layers] == [
        ("a", 100, 80, -20),
        ("b", 50, None, -50),
        ("x", None, 5, 5),
        ("c", 7, 7, 0),
    ]
    assert [each.name for each in found.changed()] == ["b", "a", "x"]
    assert found.difference == -65
    assert found.warnings == ["configuration: base and large"]


def test_pages_of_saved_runs(tmp_path):
    stats = run_of(("a <b>", "CONV2D", 100, 12800), units={"LOAD": {"bytes": 1, "cycles": {"beats": 9}}})
    for name in ("old", "new"):
        (tmp_path / f"{name}.json").write_text(json.dumps(stats))
    runs = [read_run(tmp_path / f"{name}.json") for name in ("old", "new")]
    write_run(tmp_path / "one.html", runs[0])
    page = (tmp_path / "one.html").read_text()
    assert "a &lt;b&gt;" in page and "a <b>" not in page and "Timeline" not in page and "http" not in page
    write_comparison(tmp_path / "two.html", compare_runs(*runs))
    page = (tmp_path / "two.html").read_text()
    assert "old → new" in page and "0 of 1 layers changed" in page and "beats" in page and "http" not in page


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("{", "it is no JSON"),
        ("[]", "the file is no object"),
        ('{"config": "base"}', "target is missing"),
        (json.dumps(run_of(("a", "ADD", 1, 0)) | {"cycles": "many"}), "cycles is 'many'"),
        (json.dumps(run_of(("a", "ADD", 1, 0)) | {"layers": [{"name": 1}]}), "layers[0].name is 1"),
        (json.dumps(run_of(("a", "ADD", 1, 0)) | {"layers": [3]}), "layers[0] is no object"),
    ],
)
def test_what_is_no_saved_run_is_refused(tmp_path, text, reason):
    file = tmp_path / "x.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=re.escape(reason)) as error:
        read_run(file)
    assert "tosaic run --stats" in str(error.value)


def test_a_notebook_shows_sessions_and_reports():
    build = GraphBuilder()
    build.output(build.add("ABS", [build.input("in <1>", (1, 4), DType.INT32)]))
    session = Session(build.finish(), "emulator", "base")
    before = session._repr_html_()
    assert "in &lt;1&gt;" in before and "int32[1, 4]" in before and "dearest" not in before
    session.run({"in <1>": np.zeros((1, 4), np.int32)}, check=True)
    after = session._repr_html_()
    assert (
        "dearest layers" in after and f"{session.stats['cycles']:,}" in after and "equal to golden" in after
    )
    shown = RunReport("a & b", session)._repr_html_()
    assert shown.startswith('<iframe title="a &amp; b"') and "&lt;!doctype html&gt;" in shown


def test_histograms_count_what_is_clipped():
    found = Histogram(0.0, 32.0)
    found.add(np.array([0.5, 0.5, 3.5, 40.0]))
    assert list(np.flatnonzero(found.counts)) == [0, 3]
    assert (found.clipped, found.used) == (0.25, 4 / BINS)
    assert found.heights[:4] == [1.0, 0.0, 0.0, 0.707]
    assert Histogram(0.0, 1.0).heights == [0.0] * BINS


def test_quantities_for_people():
    assert [bytes_shown(n) for n in (0, 1023, 1024, 1536, 3 << 20)] == [
        "0 B",
        "1023 B",
        "1 KiB",
        "1.5 KiB",
        "3 MiB",
    ]
    assert [share_shown(n, 1000) for n in (0, 1, 500)] == ["0 %", "< 1 %", "50 %"]


def test_values_are_escaped_everywhere(tmp_path):
    page = tmp_path / "page.html"
    write_page(page, "tosaic.driver.pages", "page.html")
    assert page.read_text().startswith("<!doctype html>")
    values = {"title": "<x>", "facts": {"<k>": "<v>"}, "titles": ["<t>"], "rows": [["<r>"]], "confusions": []}
    write_page(page, "tosaic.driver.evaluate", "evaluation.html", **values, made={"command": "<c>"})
    assert page.read_text().count("&lt;") == 7


def test_layers_that_run_together_stand_beside_each_other():
    """ARRAY works on layer 1 while VECTOR works on layer 0; the end of layer 1 reaches into layer 2 a little."""
    timeline = [
        Slice("VECTOR", "elementwise", 0, 1000, layer=0),
        Slice("ARRAY", "convolution", 400, 1600, layer=1),
        Slice("VECTOR", "drain", 1000, 1620, layer=1),
        Slice("ARRAY", "convolution", 1600, 3000, layer=2),
        Slice("LOAD", "tensor", 0, 3000, layer=3),
    ]
    cycles = (1000, 620, 1380, 0)
    stats = {"layers": [{"name": f"l{n}", "op": "x", "cycles": c, "macs": 0} for n, c in enumerate(cycles)]}
    found = [list(layer.beside) for layer in layer_figures(stats, 256, timeline)]
    assert found == [[1], [0], [], []]
