"""The measurement of the RTL's coverage reads Verilator's file, and names every hole that has no reason."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from rtl_coverage import Reason, page, read_points, reasons  # noqa: E402 (the path comes first)

from tosaic.hw.config import CONFIGS  # noqa: E402

VERILOG = """module \\tosaic.accelerator.load.lane_3 (clk);
  if (\\$auto$verilog_backend.cc:2355:dump_module$57 ) begin end
  if (taken) begin
  assign a = b ? c : d;
"""


def entry(line, kind, side, count, module="tosaic.accelerator.load.lane_3"):
    fields = {"f": "x.v", "l": line, "n": 5, "page": f"v_{kind}/{module}", "o": side, "h": "bench"}
    return "C '" + "".join(f"\x01{name}\x02{value}" for name, value in fields.items()) + f"' {count}\n"


def points(tmp_path, *entries):
    path = tmp_path / "coverage.dat"
    path.write_text("# SystemC::Coverage-3\n" + "".join(entries))
    return read_points(path, VERILOG)


def test_places_of_the_accelerator_are_counted(tmp_path):
    found = points(
        tmp_path,
        entry(2, "branch", "if", 0),
        entry(3, "branch", "if", 7),
        entry(3, "branch", "if", 2),
        entry(4, "branch", "cond_then", 0),
        entry(1, "line", "block", 1, module="bench"),
    )
    assert {(p.module, p.kind, p.line, p.what, p.text): count for p, count in found.items()} == {
        ("load.lane_", "branch", 3, "if", "if (taken) begin"): 9,
        ("load.lane_", "branch", 4, "cond_then", "assign a = b ? c : d;"): 0,
    }


def test_a_hole_without_a_reason_is_named(tmp_path):
    found = points(tmp_path, entry(1, "line", "block", 1), entry(3, "branch", "if", 0))
    text, unexplained = page(found, CONFIGS["nano"], 5, 1000)
    assert [(hole.module, hole.line) for hole in unexplained] == [("load.lane_", 3)]
    assert "| branches | 1 | 0 | 0.00% |" in text and "| `load.lane_` | 1 | 1 | 1 | 0 |" in text


def test_a_reason_is_for_a_module_a_text_and_a_side(tmp_path):
    (hole,) = points(tmp_path, entry(3, "branch", "else", 0))
    for module, text, side, explained in (
        (r"load\..*", "taken", "", True),
        (r"load\..*", "taken", "else", True),
        (r"load\..*", "taken", "if", False),
        ("load", "taken", "", False),
        (r"load\..*", "given", "", False),
    ):
        assert Reason(module, text, "because", side).explains(hole) == explained


def test_every_reason_says_something():
    assert all(reason.reason.endswith(".") and reason.module != ".*" for reason in reasons())
