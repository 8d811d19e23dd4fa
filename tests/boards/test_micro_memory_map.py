"""The micro-coded machine's memory map: regions side by side, nothing left over, room for every register."""

import dataclasses

import pytest

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTERS
from tosaic.hw.micro.memory_map import (
    DATA_BYTES,
    RAM_BASE,
    RAM_BYTES,
    REGISTERS_BYTES,
    WINDOW_GRANULE_BYTES,
    MemoryMap,
)


def test_regions_follow_each_other() -> None:
    nano = CONFIGS["nano"]
    regions = MemoryMap(nano)
    assert regions.window_base == RAM_BASE
    assert regions.window_bytes > 0 and regions.window_bytes % WINDOW_GRANULE_BYTES == 0
    assert regions.am_base == regions.window_base + regions.window_bytes
    assert regions.wm_base == regions.am_base + nano.am_bytes
    assert regions.data_base == regions.wm_base + nano.wm_bytes
    assert regions.data_bytes >= DATA_BYTES
    assert regions.registers_base + REGISTERS_BYTES == RAM_BASE + RAM_BYTES


def test_every_register_has_its_word() -> None:
    assert max(register.offset for register in REGISTERS) < REGISTERS_BYTES


def test_too_large_a_configuration_is_refused() -> None:
    config = dataclasses.replace(CONFIGS["nano"], am_bytes=64 << 10, wm_bytes=64 << 10)
    with pytest.raises(ValueError, match="leave no external memory"):
        MemoryMap(config)
