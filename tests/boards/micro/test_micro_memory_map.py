"""The micro-coded machine's memory map: regions side by side, nothing left over, room for every register."""

import dataclasses

import pytest

from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTERS
from tosaic.hw.micro.memory_map import (
    DATA_BYTES,
    EXTERNAL_BASE,
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


def test_memory_outside_leaves_the_ram_to_the_rest() -> None:
    nano = CONFIGS["nano"]
    regions = MemoryMap(nano, 8 << 20)
    assert (regions.window_base, regions.window_bytes) == (EXTERNAL_BASE, 8 << 20)
    assert (regions.ram_bytes, regions.am_base) == (64 << 10, RAM_BASE)
    assert regions.wm_base == RAM_BASE + nano.am_bytes
    assert regions.data_bytes == (64 << 10) - nano.am_bytes - nano.wm_bytes - REGISTERS_BYTES
    assert regions.registers_base + REGISTERS_BYTES == RAM_BASE + (64 << 10)
    large = dataclasses.replace(nano, am_bytes=64 << 10, wm_bytes=64 << 10)
    with pytest.raises(
        ValueError, match=r"^am_bytes \+ wm_bytes of nano.* do not fit into a RAM of 131072 bytes$"
    ):
        MemoryMap(large, 8 << 20)
    with pytest.raises(
        ValueError, match="^external_bytes must be a power of two up to 1073741824, or 0, not 3$"
    ):
        MemoryMap(nano, 3)


def test_every_register_has_its_word() -> None:
    assert max(register.offset for register in REGISTERS) < REGISTERS_BYTES


def test_too_large_a_configuration_is_refused() -> None:
    config = dataclasses.replace(CONFIGS["nano"], am_bytes=64 << 10, wm_bytes=64 << 10)
    with pytest.raises(ValueError, match="leave no external memory"):
        MemoryMap(config)
