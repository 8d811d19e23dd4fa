"""The firmware for the core: it fits, and what does not fit is refused."""

import dataclasses
import importlib.metadata
import pathlib
import tomllib

import pytest

from tosaic.hw.config import CONFIGS
from tosaic.hw.micro.firmware import build
from tosaic.hw.micro.firmware.build import FirmwareError, build_firmware
from tosaic.hw.micro.firmware.header import machine_header
from tosaic.hw.micro.memory_map import ROM_BYTES


def test_it_fits_and_is_the_same_each_time():
    image = build_firmware(CONFIGS["nano"])
    assert len(image) % 4 == 0 and 4096 < len(image) <= ROM_BYTES
    other = build_firmware(dataclasses.replace(CONFIGS["nano"], wm_bytes=8 << 10))
    assert other != image
    assert build_firmware(CONFIGS["nano"]) == image


def test_too_small_a_rom(monkeypatch):
    monkeypatch.setattr(build, "ROM_BYTES", 4096)
    with pytest.raises(FirmwareError, match="the firmware does not fit into the block RAM"):
        build_firmware(CONFIGS["nano"])


def test_too_small_a_ram(monkeypatch):
    monkeypatch.setattr(build, "STACK_BYTES", 4096)
    with pytest.raises(FirmwareError, match="variables and stack do not fit into the RAM"):
        build_firmware(CONFIGS["nano"])


def test_too_small_a_stack(monkeypatch):
    """The deepest calls: VECTOR waits for the array, which computes meanwhile."""
    monkeypatch.setattr(build, "STACK_BYTES", 64)
    with pytest.raises(
        FirmwareError,
        match=r"^the firmware's deepest calls take \d+ bytes of stack, more than 64: serve, let_move, vector_step, "
        r"execute, fetch, let_move, array_step, pixel_sums$",
    ):
        build_firmware(CONFIGS["nano"])


def test_the_compiler_is_pinned():
    """The release that compiles here is the one that users get."""
    project = tomllib.loads((pathlib.Path(__file__).parents[3] / "pyproject.toml").read_text())
    micro = project["project"]["optional-dependencies"]["micro"]
    assert f"ziglang=={importlib.metadata.version('ziglang')}" in micro


def test_no_decoder_for_compressed_weights():
    with pytest.raises(ValueError, match="cabac_engines must be 0"):
        machine_header(CONFIGS["base"])
