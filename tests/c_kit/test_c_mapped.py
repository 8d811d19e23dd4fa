"""The port to mapped registers and memory: every length and alignment, and nothing beside it."""

import ctypes

import numpy as np
import pytest
from c_programs import CALLBACKS, CC, POINTER, STRICT, U32, run
from device_programs import tiny

from tosaic.driver.c_kit import write_c_kit

GUARD = 0xA5
CACHE = ctypes.CFUNCTYPE(None, POINTER, U32)
NO_CACHE = ctypes.cast(None, CACHE)


class Mapped(ctypes.Structure):
    _fields_ = [
        ("registers", POINTER),
        ("memory", POINTER),
        ("clean_cache", CACHE),
        ("forget_cache", CACHE),
        ("wait", CALLBACKS[4]),
        ("wait_context", POINTER),
    ]


BASE = 0x8_8000_0000


class Port(ctypes.Structure):
    _fields_ = [
        ("context", POINTER),
        ("memory_base", ctypes.c_uint64),
        ("memory_bytes", U32),
        *zip(
            ("read_register", "write_register", "read_memory", "write_memory", "wait"), CALLBACKS, strict=True
        ),
        ("lost", CALLBACKS[4]),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mapped")
    write_c_kit(folder / "digits.c", tiny("nano"), {})
    run([*CC, *STRICT, "-O2", "-shared", "-fPIC", "tosaic_mapped.c", "-o", "mapped.so"], folder)
    return ctypes.CDLL(str(folder / "mapped.so"))


class Machine:
    """Registers and memory as arrays, and the port to them. `cache` notes what was cleaned and forgotten."""

    def __init__(self, library, *, cached=False):
        self.registers, self.memory = np.zeros(1024, np.uint32), np.full(64, GUARD, np.uint8)
        self.cache: list[tuple[str, int, int]] = []
        clean, forget = (self._noting(name) if cached else NO_CACHE for name in ("clean", "forget"))
        wait = ctypes.cast(None, CALLBACKS[4])
        self.mapped = Mapped(self.registers.ctypes.data, self.memory.ctypes.data, clean, forget, wait, None)
        self.port = Port()
        library.tosaic_mapped_port(
            ctypes.byref(self.port), ctypes.byref(self.mapped), ctypes.c_uint64(BASE), U32(64)
        )

    def _noting(self, name):
        def note(start, count):
            self.cache.append((name, start - self.memory.ctypes.data, count))

        return CACHE(note)


def test_the_port(library):
    machine = Machine(library)
    port = machine.port
    assert (port.memory_base, port.memory_bytes) == (BASE, 64)
    port.write_register(port.context, 0x54, 0xDEADBEEF)
    assert machine.registers[0x54 // 4] == 0xDEADBEEF and machine.registers.sum(dtype=np.uint64) == 0xDEADBEEF
    assert port.read_register(port.context, 0x54) == 0xDEADBEEF
    assert port.wait(port.context) == 0


@pytest.mark.parametrize("skew", range(4))
def test_bytes_arrive_where_they_belong(library, skew):
    machine = Machine(library)
    port = machine.port
    data = np.random.default_rng(skew).integers(0, 256, 64, dtype=np.uint8)
    for address in range(8, 13):
        for count in range(14):
            wanted = np.full(64, GUARD, np.uint8)
            wanted[address : address + count] = data[skew : skew + count]
            machine.memory[:] = GUARD
            port.write_memory(port.context, address, data[skew:].ctypes.data, count)
            np.testing.assert_array_equal(machine.memory, wanted)
            found = np.full(64, GUARD, np.uint8)
            port.read_memory(port.context, address, found[skew:].ctypes.data, count)
            np.testing.assert_array_equal(found[skew : skew + count], data[skew : skew + count])
            assert set(np.delete(found, np.s_[skew : skew + count])) == {GUARD}
            port.write_memory(port.context, address, None, count)
            wanted[address : address + count] = 0
            np.testing.assert_array_equal(machine.memory, wanted)


def test_the_cache_is_cleaned_after_a_write_and_forgotten_before_a_read(library):
    machine = Machine(library, cached=True)
    port = machine.port
    data = np.zeros(16, np.uint8)
    port.write_memory(port.context, 16, data.ctypes.data, 8)
    port.read_memory(port.context, 4, data.ctypes.data, 12)
    assert machine.cache == [("clean", 16, 8), ("forget", 4, 12)]


def test_the_wait_is_handed_on(library):
    machine = Machine(library)
    seen = []
    callback = CALLBACKS[4](lambda context: seen.append(context) or 7)
    machine.mapped.wait, machine.mapped.wait_context = callback, 99
    assert machine.port.wait(machine.port.context) == 7
    assert seen == [99]
