"""The LiteX module and the system around it: its ports are the accelerator's, and it boots and classifies."""

import logging
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from shared_files import SHARED

import tosaic
from tosaic.hw.config_text import get_config
from tosaic.hw.top import VerilogTop

ROOT = Path(__file__).parents[2]
SOC = ROOT / "examples" / "litex_soc"
KWS = SHARED / "models" / "kws_dscnn"

pytestmark = pytest.mark.xdist_group("litex")


@pytest.fixture
def example(monkeypatch):
    """The example's own modules."""
    monkeypatch.syspath_prepend(str(SOC))
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)
    for name in ("soc", "simulate", "firmware_build"):
        sys.modules.pop(name, None)


def made(linux=False, config="nano"):
    """The SoC, and its Verilog without the accelerator's."""
    from soc import NpuSoc, Platform

    platform = Platform()
    soc = NpuSoc(platform, [0], config, 1_000_000, verilog=False, linux=linux)
    soc.finalize()
    return soc, platform.get_verilog(soc, name="soc", regular_comb=False).main_source


@pytest.mark.parametrize("linux", [False, True])
def test_ports_and_places(example, linux):
    """Every port of the accelerator is connected once; registers, interrupt and SDRAM are in the processor's map."""
    soc, text = made(linux)
    instance = re.search(r"^tosaic tosaic\((.*?)^\);", text, re.MULTILINE | re.DOTALL)
    assert instance is not None
    connected = re.findall(r"\.(\w+)\s*\(", instance[1])
    top = VerilogTop(get_config("nano"))
    assert sorted(connected) == sorted(["clk", "rst", *top.signature.members])
    regions = {name: (region.origin, region.size) for name, region in soc.mem_regions.items()}
    assert regions["npu"] == (0x8000_0000, 0x1000)
    assert regions["main_ram"] == (0x4000_0000, 32 << 20)
    assert regions["npu_memory"] == (0x4180_0000, 8 << 20)
    assert soc.constants["NPU_INTERRUPT"] == 2
    assert ("VexRiscv_Linux" if linux else "VexRiscv_Lite") in str(soc.platform.sources)


def test_the_bus_is_as_wide_as_the_configurations(example):
    _, text = made(config="small")
    assert "wire   [63:0] npu_memory_r_payload_data;" in text


def test_what_a_soc_cannot_take_is_refused(example, tmp_path):
    from litex.soc.integration.soc_core import SoCCore
    from soc import CLOCK_HZ, Clocks, NpuSoc, Platform

    from tosaic.boards.litex_soc import Tosaic

    platform = Platform()
    plain = SoCCore(platform, CLOCK_HZ, cpu_type=None, integrated_sram_size=4096)
    plain.crg = Clocks(platform)
    with pytest.raises(ValueError, match=r"^the SoC has no SDRAM: call add_sdram before Tosaic$"):
        Tosaic(plain)
    command = rf"{tmp_path} does not hold the Verilog of nano: tosaic verilog --config nano -o {tmp_path}"
    with pytest.raises(ValueError, match=f"^{command}$"):
        NpuSoc(Platform(), [0], "nano", 1_000_000, verilog=tmp_path)
    with_sdram = NpuSoc(Platform(), [0], "nano", 1_000_000, verilog=False)
    with pytest.raises(
        ValueError, match="^memory_bytes must be a multiple of 32 up to main_ram's 33554432, not 100$"
    ):
        Tosaic(with_sdram, memory_bytes=100, name="other", verilog=False)
    with pytest.raises(
        ValueError, match="^LiteDRAM's port has 32 bits of address and no caches: address_bits must"
    ):
        Tosaic(with_sdram, "nano,address_bits=40", name="other", verilog=False)
    with_sdram.l2_cache = Clocks
    with pytest.raises(ValueError, match=r"L2 cache does not see .*: add_sdram\(..., l2_cache_size=0\)$"):
        Tosaic(with_sdram, name="other", verilog=False)


@pytest.mark.nightly
def test_it_boots_and_classifies(example, tmp_path):
    """Firmware of the C kit on VexRiscv; the interrupt comes once for each run."""
    from simulate import Model, digits, run

    models = digits()
    if KWS.is_dir():
        models.append(Model("kws", KWS / "model.tosa", np.load(KWS / "inputs_0.npy")))
    said = run(tmp_path, models).splitlines()
    assert said[-1] == "done" and len(said) == len(models) + 1
    for number, (line, model) in enumerate(zip(said, models, strict=False), 1):
        graph = tosaic.Session(model.path, "golden")
        (scores,) = graph.run({graph.inputs[0].name: model.image}).values()
        assert re.fullmatch(
            rf"{model.name}: class {np.argmax(scores)}, \d+ cycles, {number} interrupts", line
        )
