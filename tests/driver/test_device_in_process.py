"""The driver on the accelerator's RTL in this process: a device that lives from run to run."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from device_programs import check_run, endless, loading, storing, stuck, tiny

import tosaic
from tosaic.driver.transports import RtlTransport
from tosaic.driver.transports import identify as identify_module
from tosaic.hw.config_text import get_config
from tosaic.hw.isa import Error

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
pytestmark = pytest.mark.xdist_group("nano")


@pytest.fixture(scope="module")
def transport():
    """Memory full of garbage: a program may not depend on what it does not write."""
    made = RtlTransport(get_config("nano"))
    made.memory[:] = np.random.default_rng(7).integers(0, 256, made.memory.size, dtype=np.uint8)
    yield made
    made.close()


@pytest.fixture(scope="module")
def device(transport):
    return tosaic.Device(transport)


@pytest.fixture(scope="module")
def program():
    return tiny("nano")


def test_runs_follow_one_another(device, program):
    for seed in range(4):
        check_run(device, program, seed)
    check_run(device, tiny("nano"), 5)


def test_sessions_share_a_device(device):
    sessions = [tosaic.Session(MODEL, device) for _ in range(2)]
    assert [session.config.name for session in sessions] == ["nano", "nano"]
    for seed in range(4):
        image = np.random.default_rng(seed).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
        session = sessions[seed % 2]
        session.run({"image": image}, check=True)
        assert session.stats["target"] == "sim://nano"
        assert session.stats["memory_bandwidth"] is None
    simulated = tosaic.Session(MODEL, "sim", "nano")
    simulated.run({"image": image})
    same = ("cycles", "dram_read_bytes", "dram_write_bytes", "layers", "macs")
    assert {name: session.stats[name] for name in same} == {name: simulated.stats[name] for name in same}
    with pytest.raises(
        tosaic.InputError, match=r"^sim://nano: a device's memory is as it is: leave memory bandwidth out$"
    ):
        tosaic.Session(MODEL, device, memory_bandwidth=8)


def fails(device, program, wanted, max_cycles=None):
    with pytest.raises(tosaic.DeviceError, match=wanted):
        device.run(program, program.memory(), max_cycles)


def test_an_endless_program_is_ended(device, program):
    fails(
        device,
        endless("nano"),
        r"^sim://nano: the program did not end in 100000 cycles; UNITS is 0x000000, SEQUENCER at 16 "
        r"\(BRANCH target=16 condition=0\), LOAD at ",
        max_cycles=100_000,
    )
    check_run(device, program, 1)


def test_the_watchdog(device, program):
    fails(
        device,
        stuck("nano"),
        r"^sim://nano: WATCHDOG in STORE at program counter 16 \(STORE_WAIT semaphore=3 count=1\); "
        r"UNITS is 0x080800, .*STORE at 16 \(STORE_WAIT semaphore=3 count=1\)$",
    )
    check_run(device, program, 2)


def test_slverr(device, transport, program):
    base = transport.identity.memory_base
    transport.set_errors(base + 128, base + 256)
    try:
        fails(device, loading("nano", 100), r"^sim://nano: BUS_READ in LOAD at program counter ")
        fails(device, storing("nano", 250), r"^sim://nano: BUS_WRITE in STORE at program counter ")
    finally:
        transport.set_errors(None, None)
    check_run(device, program, 3)


def test_decerr(transport, program):
    """A board that has less memory than it says."""
    device = tosaic.Device(transport)
    size = transport.identity.memory_bytes
    far = dataclasses.replace(loading("nano", size + 64), memory_bytes=size + 4096)
    with pytest.raises(
        tosaic.UnsupportedError,
        match=rf"^sim://nano: the program needs {size + 4096} bytes of external memory, the board has {size}: use a",
    ):
        device.run(far, np.zeros(size + 4096, np.uint8))
    device.identity = dataclasses.replace(transport.identity, memory_bytes=2 * size)
    fails(device, far, r"^sim://nano: BUS_READ in LOAD at program counter ")
    check_run(device, program, 4)


def test_wrong_instruction_set(device, program, monkeypatch):
    monkeypatch.setattr(identify_module, "ISA_HASH", 0x12345678)
    fails(
        device,
        program,
        r"^sim://nano: it executes another instruction set \(ISA_HASH 0x[0-9a-f]{8}, this compiler's is 0x12345678\): "
        r"load the board with this version's bitstream$",
    )
    monkeypatch.undo()
    check_run(device, program, 5)


def test_an_instruction_set_that_only_the_machine_can_tell(device, program):
    """The program's own BEGIN is checked by the machine, too."""
    image = bytearray(program.image)
    image[program.program_address + 8] ^= 1
    wrong = dataclasses.replace(program, image=bytes(image))
    fails(
        device,
        wrong,
        rf"^sim://nano: ({Error.ISA_MISMATCH.name}|{Error.ILLEGAL.name}) in SEQUENCER at program counter 0 ",
    )
    check_run(device, program, 6)


def test_wrong_configuration(device, program):
    fails(
        device,
        tiny("small"),
        r"^sim://nano: its configuration is nano, the program's is small \(0x[0-9a-f]{8}\): compile for it with "
        r"--config nano, or load the board with small$",
    )
    check_run(device, program, 7)


def test_no_machine(transport, program, monkeypatch):
    device = tosaic.Device(transport)
    for name, value, wanted in (
        ("ID_VALUE", 1, r"^sim://nano: no machine of Tosaic answers: register ID is 0x41534f54$"),
        (
            "VERSION_VALUE",
            9 << 16,
            r"^sim://nano: its register map has version \d+\.\d+\.\d+, this driver knows 9\.0\.0: ",
        ),
    ):
        monkeypatch.setattr(identify_module, name, value)
        fails(device, program, wanted)
        monkeypatch.undo()
    check_run(device, program, 8)


def test_somebody_left_a_program_running(transport, program):
    first = tosaic.Device(transport)
    endless_program = endless("nano")

    def give_up(attempt):
        raise KeyboardInterrupt

    wait, transport.wait = transport.wait, give_up
    with pytest.raises(KeyboardInterrupt):
        first.run(endless_program, endless_program.memory())
    transport.wait = wait
    check_run(tosaic.Device(transport), program, 9)


def test_reset_while_a_program_runs(transport, device, program):
    wait, left = transport.wait, [3]

    def pull(attempt):
        wait(attempt)
        left[0] -= 1
        if not left[0]:
            transport.soft_reset()

    transport.wait = pull
    fails(
        device,
        endless("nano"),
        r"^sim://nano: the machine was reset while the program ran: it is idle, and at no end \(STATUS 0x1\)$",
    )
    transport.wait = wait
    check_run(device, program, 10)


@pytest.mark.parametrize(
    "uri, wanted",
    [
        (
            "ftp://x",
            r"^ftp://x: there is no transport 'ftp'; did you mean tcp\? there are pool, serial, sim, tcp, tcps, "
            "udp, uio, virtual: serial:///dev/ttyUSB1",
        ),
        (
            "serial:///dev/x?speed=1",
            r"^serial:///dev/x\?speed=1: there is no option 'speed'; serial has baud, flash, selftest, twice, verify$",
        ),
        (
            "serial:///dev/x?baud=fast",
            r"^serial:///dev/x: baud must be a positive number, not 'fast'$",
        ),
        ("tcp://:1", r"^tcp://:1: write tcp://HOST:PORT$"),
        ("tcp://x:99999", r"^tcp://x:99999: the port must be a number below 65536$"),
        (
            "tcp://x:1",
            r"^tcp://x:1: the board server wants its token: set TOSAIC_TOKEN, or name a file with \?token_file=FILE$",
        ),
        (
            "sim://tiny",
            r"^sim://tiny: no configuration is called 'tiny'; there are nano, small, base, large, ",
        ),
        ("virtual://x", r"^there is no virtual board 'x'; there are ulx3s-85f, "),
    ],
)
def test_wrong_uris(uri, wanted, monkeypatch):
    monkeypatch.delenv("TOSAIC_TOKEN", raising=False)
    with pytest.raises(tosaic.InputError, match=wanted):
        tosaic.Device.open(uri)


def test_a_device_that_is_not_there():
    with pytest.raises(tosaic.DeviceError, match=r"^serial:///dev/tosaic9: cannot be opened: "):
        tosaic.Session(MODEL, "serial:///dev/tosaic9")
