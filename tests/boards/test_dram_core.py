"""LiteDRAM's controller as its generator writes it, repaired; what is said where the generator is missing."""

import importlib.util
import re

import pytest

import tosaic
from tosaic.boards.dram import M12L64322A, MT48LC16M16, core_verilog, core_versions
from tosaic.hw.package_missing import PackageMissing
from tosaic.install import install_command
from tosaic.virtual import open_board

MISSING = "the Python package litedram is missing"


def test_it_is_the_same_every_time():
    again = core_verilog.__wrapped__
    text = again(MT48LC16M16, "LFE5U-45F-6BG381C", 50e6, 4)
    assert text == again(MT48LC16M16, "LFE5U-45F-6BG381C", 50e6, 4)
    assert text.startswith("module litedram_core (\n") and text.endswith("endmodule\n")
    assert "inout  wire   [15:0] sdram_dq" in text
    assert "output wire   [31:0] user_port_axi_0_rdata" in text and "// Date" not in text


def test_a_gowin_has_no_port_but_the_hosts_and_no_cell_of_another_maker():
    text = core_verilog(M12L64322A, "GW2AR-LV18QN88C8/I7", 27e6, 0)
    assert "inout  wire   [31:0] sdram_dq" in text and "output wire   [31:0] user_port_host_dat_r" in text
    assert "user_port_axi" not in text and "TRELLIS" not in text
    assert text.count("DFFP DFFP") == 2


def test_without_the_packages(monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "litedram" else there(name))
    with pytest.raises(PackageMissing, match=f"^{MISSING}$"):
        core_versions()
    said = re.escape(f"{MISSING}; {install_command('dram')}")
    with pytest.raises(tosaic.InputError, match=f"^{said}$"):
        open_board("ulx3s-85f")


def test_a_chip_in_cycles():
    assert MT48LC16M16.memory_bytes == 32 << 20
    assert MT48LC16M16.gaps(50e6) == {"rcd": 1, "rp": 1, "ras": 3, "rc": 4, "rrd": 1, "rfc": 4, "wr": 1}
    assert M12L64322A.memory_bytes == 8 << 20
    assert M12L64322A.gaps(27e6) == {"rcd": 1, "rp": 1, "ras": 2, "rc": 2, "rrd": 1, "rfc": 2, "wr": 2}
    assert MT48LC16M16.gaps(100e6) == {"rcd": 2, "rp": 2, "ras": 5, "rc": 7, "rrd": 2, "rfc": 7, "wr": 2}
