"""Registers and memory mapped into user space, on files: a thread plays the machine, by the RTL."""

import mmap
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from device_programs import check_run, loading, tiny

import tosaic
from tosaic.driver.transports import RtlTransport, UioTransport
from tosaic.driver.transports.uio import REGISTER_BYTES
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import HIGH_BASE, MEM_BASE_HIGH, REGISTER, REGISTERS, FieldAccess

pytestmark = pytest.mark.xdist_group("nano")
BYTES = 64 << 10
CONTROL = REGISTER["CONTROL"].offset // 4
IRQ = REGISTER["IRQ"].offset // 4
STORED = [
    register.offset // 4
    for register in REGISTERS
    if register.mask(FieldAccess.RW) and register.name != "CONTROL"
]
SHOWN = [register.offset // 4 for register in REGISTERS if not register.mask(FieldAccess.RW)]


class PostedUio(UioTransport):
    """The bus orders a read behind the writes before it; here the thread has to get round to it."""

    def write_register(self, offset, value):
        super().write_register(offset, value)
        while offset == 4 * CONTROL and self.read_registers(offset, 1) != [0]:
            time.sleep(0)


class FakeUio(threading.Thread):
    """Files in place of /dev/uio0 and /dev/udmabuf0. What the driver writes goes to an accelerator, whose registers
    appear in the file; memory is shared."""

    def __init__(self, folder, config="nano", base=0x10000000):
        super().__init__(daemon=True)
        self.device, self.buffer, self.sysfs = folder / "uio0", folder / "udmabuf0", folder / "class"
        entry = self.sysfs / "u-dma-buf" / "udmabuf0"
        entry.mkdir(parents=True)
        (entry / "phys_addr").write_text(f"0x{base:x}\n")
        (entry / "size").write_text(f"{BYTES}\n")
        self.device.write_bytes(bytes(REGISTER_BYTES))
        self.buffer.write_bytes(bytes(BYTES))
        self.registers = np.memmap(self.device, np.uint32, "r+")
        self.memory = np.memmap(self.buffer, np.uint8, "r+")
        self.rtl = RtlTransport(get_config(config), memory_bytes=BYTES)
        self.stored = STORED + [MEM_BASE_HIGH.offset // 4] * (get_config(config).address_bits > 32)
        self.rtl._harness.set_memory(self.memory, base)
        self.stop = threading.Event()
        self.show()

    def show(self):
        for index in SHOWN:
            (self.registers[index],) = self.rtl.read_registers(4 * index, 1)
        self.shown_irq = int(self.registers[IRQ])

    def run(self):
        while not self.stop.is_set():
            if int(self.registers[IRQ]) != self.shown_irq:
                self.rtl.write_register(4 * IRQ, int(self.registers[IRQ]))
            # First: what was written before the order must be there before the order is.
            order = int(self.registers[CONTROL])
            for index in self.stored:
                self.rtl.write_register(4 * index, int(self.registers[index]))
            if order:
                self.rtl.write_register(4 * CONTROL, order)
            self.rtl._harness.run(200)
            self.show()
            if order:
                self.registers[CONTROL] = 0

    def close(self):
        self.stop.set()
        self.join()
        self.rtl.close()


@pytest.fixture
def fake(tmp_path):
    made = FakeUio(tmp_path)
    yield made
    if made.is_alive():
        made.close()


def test_registers_and_memory(fake):
    transport = UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
    assert (transport.identity.memory_base, transport.identity.memory_bytes) == (0x10000000, BYTES)
    transport.write_memory(5, b"hello")
    assert fake.memory[5:10].tobytes() == b"hello" == transport.read_memory(5, 5)
    transport.write_register(REGISTER["WATCHDOG"].offset, 0xDEADBEEF)
    assert fake.registers[REGISTER["WATCHDOG"].offset // 4] == 0xDEADBEEF
    assert transport.read_registers(0, 1) == [0x41534F54]
    with pytest.raises(
        tosaic.DeviceError, match=rf"^uio://.*: 8 bytes at 0xfffc lie outside its {BYTES} bytes$"
    ):
        transport.read_memory(BYTES - 4, 8)
    with pytest.raises(tosaic.DeviceError, match=r"^uio://.*: 4 bytes at 0x1000 lie outside its 4096 bytes$"):
        transport.write_register(4096, 0)
    assert transport.reset() is False
    transport.close()


def test_the_overlay_tells_the_clock_that_was_built_for(fake):
    """Or the URI does; 0 where nobody does."""

    def told(**options):
        transport = UioTransport(str(fake.device), str(fake.buffer), fake.sysfs, **options)
        transport.close()
        return transport.identity.clock_hz

    assert told() == 0
    node = fake.sysfs / "uio" / "uio0" / "device" / "of_node"
    node.mkdir(parents=True)
    (node / "clock-frequency").write_bytes((50_000_000).to_bytes(4, "big"))
    assert told() == 50_000_000
    assert told(clock_hz=75_000_000) == 75_000_000


class NoBulkCopies(mmap.mmap):
    """A mapping of Device memory: a copy by memcpy() is a bus error there."""

    def __getitem__(self, place):
        if isinstance(place, slice):
            raise AssertionError(f"bus error: memcpy() of {place}")
        return super().__getitem__(place)

    def __setitem__(self, place, value):
        if isinstance(place, slice):
            raise AssertionError(f"bus error: memcpy() of {place}")
        super().__setitem__(place, value)


@pytest.mark.parametrize(
    "start, count",
    [
        (8201, 490),
        (8256, 10),
        (16, 16),
        (3, 2),
        (7, 1),
        (7, 2),
        (6, 9),
        (1, 15),
        (8, 7),
        (0, 0),
        (BYTES - 3, 3),
    ],
)
def test_memory_is_copied_without_memcpy(fake, monkeypatch, start, count):
    """Any place and length, and nothing beside them: 8201 and 490 are an input of kws_dscnn."""
    monkeypatch.setattr(mmap, "mmap", NoBulkCopies)
    transport = UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
    before = np.random.default_rng(1).integers(0, 256, BYTES, dtype=np.uint8)
    fake.memory[:] = before
    data = np.random.default_rng(2).bytes(count)
    assert transport.read_memory(start, count) == before[start : start + count].tobytes()
    transport.write_memory(start, data)
    before[start : start + count] = np.frombuffer(data, np.uint8)
    np.testing.assert_array_equal(fake.memory, before)
    transport.close()


OPEN = """
import pathlib, sys
from tosaic.driver.transports import UioTransport
UioTransport(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
"""


def test_one_process_has_the_machine(fake, tmp_path):
    """Neither the registers nor the buffer are shared, in this process or with another."""
    transport = UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
    refused = (
        rf"^uio://{fake.device}: {fake.device} is in use: close the session or end the process that has it, "
        "or share the device with `tosaic serve`$"
    )
    with pytest.raises(tosaic.DeviceError, match=refused):
        UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
    other = tmp_path / "uio1"
    other.write_bytes(bytes(REGISTER_BYTES))
    with pytest.raises(tosaic.DeviceError, match=rf"^uio://{other}: {fake.buffer} is in use: "):
        UioTransport(str(other), str(fake.buffer), fake.sysfs)
    command = [sys.executable, "-c", OPEN, fake.device, fake.buffer, fake.sysfs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"{fake.device} is in use: " in done.stderr
    transport.close()
    assert subprocess.run(command, check=False).returncode == 0
    UioTransport(str(fake.device), str(fake.buffer), fake.sysfs).close()


def test_missing_parts(fake, tmp_path):
    with pytest.raises(
        tosaic.DeviceError, match=r"^uio://.*none: .*none cannot be opened: No such file or directory$"
    ):
        UioTransport(str(tmp_path / "none"), str(fake.buffer), fake.sysfs)
    with pytest.raises(
        tosaic.DeviceError, match=r"phys_addr does not tell the buffer's address: load u-dma-buf"
    ):
        UioTransport(str(fake.device), "/dev/udmabuf7", fake.sysfs)
    (fake.sysfs / "u-dma-buf" / "udmabuf0" / "size").write_text(str(2 * BYTES))
    with pytest.raises(tosaic.DeviceError, match=r"^uio://.*udmabuf0 cannot be mapped: "):
        UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
    (fake.sysfs / "u-dma-buf" / "udmabuf0" / "size").write_text(str(BYTES))
    (fake.sysfs / "u-dma-buf" / "udmabuf0" / "phys_addr").write_text("0xffffffff0000")
    with pytest.raises(
        tosaic.DeviceError, match=r" which the machine does not reach: .* address_bits=48, or "
    ):
        UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)


def test_a_buffer_above_4_gib(fake):
    """The machine is told in which 4 GiB it lies, if it has such addresses; one that has not is not touched."""
    entry, high = fake.sysfs / "u-dma-buf" / "udmabuf0", MEM_BASE_HIGH.offset // 4

    def opened(base):
        (entry / "phys_addr").write_text(hex(base))
        transport = UioTransport(str(fake.device), str(fake.buffer), fake.sysfs)
        transport.close()
        return transport.identity.memory_base

    with pytest.raises(
        tosaic.DeviceError,
        match=r"^uio://.*: the buffer .*udmabuf0 ends at bus address 0x870010000, which the machine does not reach: "
        r"build it with address_bits=36, or put the buffer into a reserved region below 4 GiB; or its window is ",
    ):
        opened(0x8_7000_0000)
    assert fake.registers[high] == 0
    fake.registers[REGISTER["STATUS"].offset // 4] |= HIGH_BASE.mask
    assert opened(0x8_7000_0000) == 0x8_7000_0000 and fake.registers[high] == 8
    assert opened(0x7000_0000) == 0x7000_0000 and fake.registers[high] == 0
    with pytest.raises(
        tosaic.DeviceError, match=r", 65536 bytes at bus address 0x1ffff8000, crosses a multiple of 4 GiB: "
    ):
        opened(0x1_FFFF_8000)


@pytest.mark.parametrize(("told", "synchronous"), [(None, True), ("0", True), ("1", False)])
def test_a_coherent_buffer_is_mapped_cached(fake, monkeypatch, told, synchronous):
    """O_SYNC is what makes u-dma-buf map it uncached."""
    flags, really = {}, os.open

    def opening(path, asked):
        flags[path] = asked
        return really(path, asked)

    monkeypatch.setattr(os, "open", opening)
    if told is not None:
        (fake.sysfs / "u-dma-buf" / "udmabuf0" / "dma_coherent").write_text(f"{told}\n")
    UioTransport(str(fake.device), str(fake.buffer), fake.sysfs).close()
    assert bool(flags[str(fake.buffer)] & os.O_SYNC) == synchronous


@pytest.mark.nightly
def test_a_network_runs_above_4_gib(tmp_path):
    """On a machine with such addresses, in a buffer that ends with a multiple of 4 GiB."""
    config = "nano,address_bits=40,axi_cache=15,axi_prot=2,load_crc=1,memory_parity=1"
    fake = FakeUio(tmp_path, config, (0x93 << 32) - BYTES)
    fake.start()
    device = tosaic.Device(PostedUio(str(fake.device), str(fake.buffer), fake.sysfs))
    check_run(device, tiny(config), 1)
    device.close()
    fake.close()


def test_a_machine_on_the_bus_is_tested(fake):
    """The known answer comes through; the thread behind the files is slower than any FPGA, and that is told."""
    fake.start()
    transport = PostedUio(str(fake.device), str(fake.buffer), fake.sysfs, clock_hz=50_000_000)
    device = tosaic.Device(transport, self_test=True)
    slow = r"^uio://.*: the machine's clock is 0\.\d+ MHz, its bitstream was made for 50 MHz: its results are"
    with pytest.warns(UserWarning, match=slow):
        check_run(device, tiny("nano"), 1)
    device.close()


def test_networks_run(fake):
    """The ordinary driver runs them, also after a fault."""
    fake.start()
    device = tosaic.Device(PostedUio(str(fake.device), str(fake.buffer), fake.sysfs))
    program = tiny("nano")
    check_run(device, program, 1)
    check_run(device, program, 2)
    far = loading("nano", BYTES)
    with pytest.raises(
        tosaic.DeviceError, match=r"^uio://.*: MEMORY_RANGE in LOAD at program counter 16 \(LOAD_GO "
    ):
        device.run(far, far.memory())
    check_run(device, program, 3)
    device.close()
