"""A device computes a known answer before its first program, and its clock is compared with the host's."""

import contextlib
import re
import time
import warnings

import numpy as np
import pytest
from device_programs import check_run, tiny

import tosaic
from tosaic.driver.self_test import known_answer
from tosaic.driver.server import BoardServer
from tosaic.driver.transports import RtlTransport
from tosaic.driver.transports.uri import wants_self_test
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config_text import get_config
from tosaic.hw.csr_map import REGISTER

pytestmark = pytest.mark.xdist_group("nano")
NANO = get_config("nano")
CYCLES = REGISTER["CYCLES"].offset
WRONG = (
    r"this machine computes wrong numbers: 1 of 256 elements of the known-answer program of nano differ, the first at "
    r"\[0, 0, 0, 2\]: -?\d+, not -?\d+: its clock is too fast for its bitstream, a port to its memory has another "
    r"width than was built, or the bitstream is damaged "
    r"\(docs/boards\.md\); selftest=0 in the URI leaves this test out$"
)


class Broken(RtlTransport):
    """The lowest bit of the third byte of each output is wrong."""

    def read_memory(self, address, count):
        raw = super().read_memory(address, count)
        return raw[:2] + bytes([raw[2] ^ 1]) + raw[3:]


class Clocked(RtlTransport):
    """Hardware whose clock has `runs_hz`, built for `built_hz`."""

    has_real_clock = True

    def __init__(self, runs_hz, built_hz):
        super().__init__(NANO)
        self._hz = runs_hz
        self.identity = Identity("board", 0x1000_0000, 16 << 20, built_hz, 1 << 15)

    def read_registers(self, offset, count):
        values = super().read_registers(offset, count)
        if offset == CYCLES and count == 1:
            values = [int(time.perf_counter() * self._hz) % (1 << 32)]
        return values


@contextlib.contextmanager
def opened(transport):
    device = tosaic.Device(transport, self_test=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield device
    device.close()


@pytest.mark.parametrize(
    "name", ["nano", "small", "base", "large", "nano,cores=2", "base,rows=10,vector_bits=34"]
)
def test_the_known_answer_is_the_emulators(name):
    from tosaic.sim.emulator import Emulator

    known = known_answer(get_config(name))
    first, *others = known.program.streams
    memory = known.memory.copy()
    Emulator(known.program.config).run(memory, *first, others=others)
    np.testing.assert_array_equal(known.program.outputs[0].read(memory), known.wanted)
    assert len(np.unique(known.wanted)) > 80


def test_a_sound_machine_is_tested_once():
    transport = RtlTransport(NANO)
    with opened(transport) as device:
        check_run(device, tiny("nano"), 1)
        untouched = transport.memory[: 1 << 20].copy()
        check_run(device, tiny("nano"), 1)
        np.testing.assert_array_equal(transport.memory[: 1 << 20], untouched)


def test_a_wrong_answer_is_an_error_at_every_use():
    with opened(Broken(NANO)) as device:
        for _ in range(2):
            with pytest.raises(tosaic.DeviceError, match=f"^sim://nano: {WRONG}"):
                device.configuration()
            with pytest.raises(tosaic.DeviceError, match=f"^sim://nano: {WRONG}"):
                device.run(tiny("nano"), tiny("nano").memory())


def test_served_devices_are_tested_unless_the_address_says_no(monkeypatch):
    """A network of which nobody looks at the third output runs on."""
    monkeypatch.setenv("TOSAIC_TOKEN", "a" * 24)
    transport = Broken(NANO)
    server = BoardServer(transport, "a" * 24, "127.0.0.1", 0)
    uri = f"tcp://127.0.0.1:{server.address[1]}"
    device = tosaic.Device.open(uri)
    with pytest.raises(tosaic.DeviceError, match=f"^{uri}: {WRONG}"):
        device.run(tiny("nano"), tiny("nano").memory())
    device.close()
    device = tosaic.Device.open(f"{uri}?selftest=0")
    device.run(tiny("nano"), tiny("nano").memory())
    device.close()
    server.close()
    transport.close()


@pytest.mark.parametrize(
    "runs_hz, meaning", [(100e6, "its results may be wrong"), (25e6, "its results are right, and late")]
)
def test_another_clock_than_was_built_for_is_told(runs_hz, meaning):
    device = tosaic.Device(Clocked(runs_hz, 50_000_000), self_test=True)
    wanted = (
        rf"^sim://nano: the machine's clock is (\d+(?:\.\d)?) MHz, its bitstream was made for 50 MHz: {meaning}: set "
        r"the clock \(docs/boards\.md\); selftest=0 in the URI leaves this test out$"
    )
    with pytest.warns(UserWarning, match=wanted) as told:
        check_run(device, tiny("nano"), 1)
    # Others come of what tests before this one have left, whenever it is collected.
    (found,) = filter(None, (re.match(wanted, str(each.message)) for each in told))
    assert float(found[1]) == pytest.approx(runs_hz / 1e6, rel=0.1)
    device.close()


@pytest.mark.parametrize("runs_hz, built_hz", [(50e6, 50_000_000), (49.9e6, 50_000_000), (1e8, 0)])
def test_the_right_clock_and_an_unknown_one_are_not(runs_hz, built_hz):
    with opened(Clocked(runs_hz, built_hz)) as device:
        check_run(device, tiny("nano"), 1)


@pytest.mark.parametrize(
    "uri, wanted",
    [
        ("serial:///dev/ttyUSB1", True),
        ("serial:///dev/ttyUSB1?flash=1", False),
        ("serial:///dev/ttyUSB1?flash=1&selftest=1", True),
        ("uio:///dev/uio0?clock=50e6", True),
        ("uio:///dev/uio0?selftest=0", False),
        ("udp://192.168.1.50", True),
        ("tcp://fpga:7626", True),
        ("sim://nano", False),
        ("sim://nano?selftest=1", True),
        ("virtual://ulx3s-85f", False),
    ],
)
def test_hardware_is_tested(uri, wanted):
    assert wants_self_test(uri) is wanted


@pytest.mark.parametrize(
    "uri, wanted",
    [
        (
            "sim://nano?selftest=yes",
            "selftest must be 1 to test the device when it is opened, or 0, not 'yes'$",
        ),
        (
            "uio:///dev/uio0?clock=50MHz",
            "^uio:///dev/uio0: clock is what the bitstream was made for, in Hz: write clock=50e6, not '50MHz'$",
        ),
    ],
)
def test_wrong_options(uri, wanted):
    with pytest.raises(tosaic.InputError, match=wanted):
        tosaic.Device.open(uri)
