"""The LiteX module and the system around it: its ports are the accelerator's, and it boots and classifies."""

import logging
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tosaic
from tosaic.hw.config_text import get_config
from tosaic.hw.top import VerilogTop

ROOT = Path(__file__).parents[2]
SOC = ROOT / "examples" / "litex_soc"
KWS = Path(os.environ.get("TOSAIC_SHARED", ROOT.parent / "shared")) / "models" / "kws_dscnn"

pytestmark = pytest.mark.xdist_group("litex")


@pytest.fixture
def example(monkeypatch):
    """The example's own modules."""
    monkeypatch.syspath_prepend(str(SOC))
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)
    for name in ("soc", "simulate", "firmware_build", "tosaic_npu"):
        sys.modules.pop(name, None)


def test_ports_and_places(example, tmp_path):
    """Every port of the accelerator is connected once; registers, interrupt and SDRAM are in the processor's map."""
    from soc import NpuSoc, Platform

    platform = Platform()
    soc = NpuSoc(platform, [0], tmp_path, 4, 1_000_000)
    soc.finalize()
    text = platform.get_verilog(soc, name="soc", regular_comb=False).main_source
    instance = re.search(r"^tosaic tosaic\((.*?)^\);", text, re.MULTILINE | re.DOTALL)
    assert instance is not None
    connected = re.findall(r"\.(\w+)\s*\(", instance[1])
    top = VerilogTop(get_config("nano"))
    assert sorted(connected) == sorted(["clk", "rst", *top.signature.members])
    regions = {name: (region.origin, region.size) for name, region in soc.mem_regions.items()}
    assert regions["npu"] == (0x8000_0000, 0x1000)
    assert regions["main_ram"] == (0x4000_0000, 32 << 20)
    assert soc.constants["NPU_INTERRUPT"] == 2


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
