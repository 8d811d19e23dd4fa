"""A client of the board server reaches nothing but its own window, and finds nothing of the client before it."""

import dataclasses
import time

import numpy as np
import pytest
from leaky_programs import CODE_AT, CONFIG, OUT_AT, READERS, SECRET, WINDOW_BYTES, secret

import tosaic
from tosaic.driver.server import BoardServer
from tosaic.driver.server.erase import PLACE_BYTES, ZERO_BYTES, _image, erase
from tosaic.driver.transports import RtlTransport, TcpTransport
from tosaic.driver.transports.wire import Request
from tosaic.hw.bridge.protocol import Identity
from tosaic.hw.config import CONFIGS
from tosaic.hw.csr_map import REGISTER
from tosaic.hw.isa import Error, Opcode, Space, Unit
from tosaic.sim.assembler import Assembler
from tosaic.sim.emulator import Emulator

pytestmark = pytest.mark.xdist_group("nano")
TOKEN = "not a secret"
BUFFER = 1 << 20


class SlowHost(RtlTransport):
    """A host without a quick way to the memory, as on a serial line: the machine has to erase it."""

    def clear_memory(self, address, count):
        return False


class Zynq(RtlTransport):
    """The board's whole memory is behind the bus; the host has a buffer in it, as `uio://` does."""

    def __init__(self):
        super().__init__(CONFIG, memory_bytes=2 * BUFFER)
        self.physical = self.memory
        self._harness.set_memory(self.physical, 0)
        self.identity = Identity("uio", BUFFER, BUFFER, 0, 1 << 15)
        self.memory = self.physical[BUFFER:]


def run(transport, leak):
    """What the program read, or the error that it ended with."""
    image, size = leak.image()
    transport.make_idle()
    transport.write_memory(0, image)
    transport.write_memory(OUT_AT, bytes(leak.count))
    transport.start(WINDOW_BYTES, CODE_AT, size)
    attempt = 0
    status = REGISTER["STATUS"]
    while status.field("running").extract(value := transport.read_registers(status.offset, 1)[0]):
        transport.wait(attempt)
        attempt += 1
    if status.field("error").extract(value):
        return transport.read_registers(REGISTER["ERROR"].offset, 1)
    return transport.read_memory(OUT_AT, leak.count)


def test_the_readers_see_what_is_there():
    """Where no server is in between, the secret is still there."""
    device = RtlTransport(CONFIG, memory_bytes=WINDOW_BYTES)
    secrets = np.frombuffer(SECRET, np.uint8)
    weights = secrets[: CONFIG.wm_bytes].reshape(-1, 4, 4)
    for name, wanted in (
        ("activation memory", secrets),
        ("weight memory", weights[:, :2]),
        ("vector registers", np.tile(secrets[64:128], CONFIG.vector_registers)),
    ):
        assert run(device, secret()) == b""
        assert run(device, READERS[name]()) == wanted.tobytes(), name
    # The machine itself refuses to accumulate on what an earlier program left.
    assert run(device, secret()) == b""
    assert run(device, READERS["accumulators"]()) == [Error.ILLEGAL | Unit.ARRAY << 8]
    device.close()


@pytest.fixture(scope="module", params=[RtlTransport, SlowHost])
def served(request):
    device = request.param(CONFIG, memory_bytes=1 << 20)
    device.memory[:] = np.frombuffer(SECRET[:4096] * 256, np.uint8)
    made = BoardServer(device, TOKEN)
    yield made, device
    made.close()
    device.close()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_erasing_program_fits_every_configuration(config):
    """It runs on the emulator, which finds illegal fields, missing tokens and transfers that leave the window."""
    memory = np.full(1 << 20, 255, np.uint8)
    image, size = _image(config, PLACE_BYTES, 2 * PLACE_BYTES, len(memory) - 5)
    assert len(image) <= PLACE_BYTES
    memory[PLACE_BYTES : PLACE_BYTES + len(image)] = np.frombuffer(image, np.uint8)
    Emulator(config, check_hazards=True).run(memory, PLACE_BYTES + ZERO_BYTES, size)
    assert memory[:PLACE_BYTES].all() and memory[-5:].all() and not memory[2 * PLACE_BYTES : -5].any()


def client(server):
    transport = TcpTransport(*server.address, TOKEN)
    transport.acquire()
    return transport


@pytest.mark.parametrize("name", READERS)
def test_the_next_client_finds_nothing(served, name):
    server, _ = served
    fresh = RtlTransport(CONFIG, memory_bytes=WINDOW_BYTES)
    erase(fresh, CONFIG, 0, WINDOW_BYTES)
    wanted = run(fresh, READERS[name]())
    fresh.close()
    first = client(server)
    assert run(first, secret()) == b""
    assert [layer for layer, _ in first.finish()] == [0x5EC0 + layer for layer in range(15)]
    first.release()
    second = client(server)
    assert second.finish() == []
    assert run(second, READERS[name]()) == wanted
    second.close()
    first.close()


def test_the_next_client_finds_no_memory(served):
    server, device = served
    first = client(server)
    first.write_memory(0, SECRET)
    first.write_memory(300_000, SECRET)
    assert first.read_memory(300_000, len(SECRET)) == SECRET
    first.release()
    second = client(server)
    assert second.read_memory(0, 1 << 20) == bytes(1 << 20)
    # Nor does a program of its own: the whole window is erased, what lay there before the server began, too.
    assert run(second, dataclasses.replace(READERS["activation memory"](), count=0)) == b""
    second.write_memory((1 << 20) - 1, b"\1")
    assert (
        not device.memory[CODE_AT + 4096 : OUT_AT].any() and not device.memory[OUT_AT + (1 << 15) : -1].any()
    )
    second.close()
    first.close()


@pytest.mark.parametrize("kind", [RtlTransport, SlowHost])
def test_data_go_with_their_client(kind):
    """They go when the client goes, not only when the next one comes."""
    device = kind(CONFIG, memory_bytes=1 << 20)
    server = BoardServer(device, TOKEN)
    first = client(server)
    first.write_memory(5, SECRET)
    first.release()
    assert SECRET in device.memory.tobytes()
    first.close()
    server.close()
    assert not device.memory.any()
    device.close()


class Counting(RtlTransport):
    starts = 0

    def start(self, *place):
        self.starts += 1
        super().start(*place)


def test_what_is_erased_is_not_erased_again():
    """A client that goes has its data erased; the next one need not wait for that once more."""
    device = Counting(CONFIG, memory_bytes=1 << 20)
    server = BoardServer(device, TOKEN)
    first = client(server)
    first.write_memory(5, SECRET)
    erased = device.starts
    first.close()
    while device.starts == erased:
        time.sleep(0.01)
    second = client(server)
    assert device.starts == erased + 1
    assert second.read_memory(5, 16) == bytes(16)
    second.close()
    server.close()
    device.close()


def test_a_program_leaves_no_window():
    """The reproducer: a program that loads from, and stores to, memory below the buffer."""
    zynq = Zynq()
    private = b"the memory of the board's operating system"
    zynq.physical[0x1234 : 0x1234 + len(private)] = np.frombuffer(private, np.uint8)
    before = zynq.physical[:BUFFER].copy()
    server = BoardServer(zynq, TOKEN)
    transport = client(server)
    assert transport.identity.memory_base == 0
    assert not hasattr(transport, "write_register")
    for address, end in (
        (BUFFER + 0x1234, "load"),
        ((1 << 32) - BUFFER + 0x1234, "load"),
        (0x4000 + BUFFER, "store"),
    ):
        a = Assembler(CONFIG)
        if end == "load":
            a.emit(Opcode.LOAD_GO, space=Space.AM, memory_address=address, row_bytes=len(private), rows=1)
            a.pass_token(Opcode.LOAD_SIGNAL, Opcode.STORE_WAIT, 0)
        a.emit(Opcode.STORE_GO, memory_address=address, row_bytes=len(private), rows=1)
        image = np.zeros(4096, np.uint8)
        size = a.place(image, 0)
        transport.write_memory(0, image.tobytes())
        transport.start(BUFFER, 0, size)
        transport.wait(0)
        # MEMORY_RANGE in LOAD or STORE.
        (error,) = transport.read_registers(REGISTER["ERROR"].offset, 1)
        assert error == (0x107 if end == "load" else 0x407)
        transport.make_idle()
    with pytest.raises(
        tosaic.DeviceError, match=r"2097152 bytes at 0x0 lie outside its 1048576 bytes of memory$"
    ):
        transport.start(2 * BUFFER, 0, size)
    with pytest.raises(
        tosaic.DeviceError, match=r"the program's 16 bytes at 0xfff8 leave its 65536 bytes of memory$"
    ):
        transport.start(1 << 16, (1 << 16) - 8, 16)
    with pytest.raises(
        tosaic.DeviceError, match=r"1 bytes at 0x100000 lie outside its 1048576 bytes of memory$"
    ):
        transport.write_memory(BUFFER, b"x")
    transport.close()
    server.close()
    np.testing.assert_array_equal(zynq.physical[:BUFFER], before)
    zynq.close()


@pytest.mark.parametrize(
    "name", ["MEM_BASE", "MEM_SIZE", "CONTROL", "MARK_INDEX", "MARK_LAYER", "MARK_CYCLE", "PROGRAM_ADDRESS"]
)
def test_registers_that_are_not_for_clients(served_once, name):
    transport = client(served_once)
    with pytest.raises(
        tosaic.DeviceError, match=rf": register 0x{REGISTER[name].offset:03x} is not for clients$"
    ):
        transport.read_registers(REGISTER[name].offset, 1)
    transport.close()


def test_there_is_no_operation_that_writes_a_register():
    assert {request.name for request in Request} == {
        *("HELLO", "ACQUIRE", "RELEASE", "READ_REGISTERS", "READ_MEMORY", "WRITE_MEMORY"),
        *("RUN", "WAIT", "FINISH", "STOP", "RESET"),
    }


@pytest.fixture(scope="module")
def served_once():
    device = RtlTransport(CONFIG, memory_bytes=1 << 20)
    made = BoardServer(device, TOKEN)
    yield made
    made.close()
    device.close()


def test_a_window_does_not_grow_under_a_running_program(served_once):
    transport = client(served_once)
    a = Assembler(CONFIG)
    a.emit(Opcode.BRANCH, target=a.offset)
    image = np.zeros(4096, np.uint8)
    size = a.place(image, 0)
    transport.write_memory(0, image.tobytes())
    transport.start(4096, 0, size)
    with pytest.raises(tosaic.DeviceError, match=r": the machine is not idle: stop its program first$"):
        transport.start(1 << 20, 0, size)
    with pytest.raises(tosaic.DeviceError, match=r": the program still runs$"):
        transport.finish()
    transport.close()


class Unerasable(RtlTransport):
    broken = True

    def start(self, *place, **others):
        if self.broken:
            raise tosaic.DeviceError("the line is gone")
        super().start(*place, **others)


def test_a_board_that_cannot_be_erased_has_no_next_client():
    device = Unerasable(CONFIG, memory_bytes=1 << 20)
    server = BoardServer(device, TOKEN)
    transport = TcpTransport(*server.address, TOKEN)
    for _ in range(2):
        with pytest.raises(tosaic.DeviceError, match=r": the line is gone$"):
            transport.acquire()
    device.broken = False
    assert transport.acquire() is False
    transport.close()
    server.close()
    device.close()


def test_an_unknown_configuration_is_not_shared():
    device = RtlTransport(CONFIG, memory_bytes=1 << 20)
    registers = device.read_registers
    device.read_registers = lambda offset, count: (
        [*registers(offset, count)[:-1], 77] if count == 4 else registers(offset, count)
    )
    server = BoardServer(device, TOKEN)
    with pytest.raises(
        tosaic.DeviceError,
        match=r"^sim://nano: its configuration is unknown \(CONFIG_HASH 0x0000004d\), so nobody can erase it between ",
    ):
        server.check()
    server.close()
    device.close()
