"""Faults of line and board on a whole virtual board: DeviceError in words, and the next run is bit-exact."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import tosaic
from tosaic.driver.transports import BridgeTransport
from tosaic.driver.transports import identify as identify_module
from tosaic.hw.bridge.frames import FrameDecoder, encode_request
from tosaic.hw.bridge.protocol import Operation
from tosaic.sim.board import VirtualLine
from tosaic.virtual import open_board

sys.path.insert(0, str(Path(__file__).parents[1] / "driver"))
from bad_line import BadLine, dropping, flipping, garbled, repeating, unplugged  # noqa: E402
from device_programs import check_run, endless, loading, storing, stuck, tiny  # noqa: E402

pytestmark = pytest.mark.xdist_group("virtual_icebreaker")
NAME = "virtual board"


@pytest.fixture(scope="module")
def board():
    made = open_board("icebreaker")
    yield made
    made.close()


@pytest.fixture(scope="module")
def line(board):
    return BadLine(VirtualLine(board))


@pytest.fixture(scope="module")
def transport(line):
    return BridgeTransport(line, NAME)


@pytest.fixture(scope="module")
def device(transport):
    return tosaic.Device(transport)


@pytest.fixture(scope="module")
def program():
    return tiny("nano")


@pytest.fixture(autouse=True)
def healed(line):
    yield
    line.heal()


def fails(device, program, wanted, max_cycles=None):
    with pytest.raises(tosaic.DeviceError, match=wanted):
        device.run(program, program.memory(), max_cycles)


NO_ANSWER = rf"^{NAME}: the board does not answer: 6 times [A-Z_]+ at 0x[0-9a-f]+, \d+ damaged frames; is it plugged in"


@pytest.mark.parametrize("direction", ["to_board", "to_host"])
def test_unplugged(device, line, program, direction):
    check_run(device, program, 1)
    setattr(line, direction, unplugged)
    fails(device, program, NO_ANSWER)
    line.heal()
    check_run(device, program, 2)


def test_unplugged_while_a_program_runs(device, line, program):
    """The program goes on behind the host's back; the next run finds it and ends it."""

    def pull():
        line.to_board = line.to_host = unplugged

    line.on_pause = pull
    fails(device, endless("nano"), NO_ANSWER)
    line.heal()
    check_run(device, program, 3)


@pytest.mark.parametrize("direction", ["to_board", "to_host"])
def test_garbage_now_and_then_costs_repeats_only(device, transport, line, program, direction):
    before = transport.repeats
    setattr(line, direction, garbled(1))
    check_run(device, dataclasses.replace(program), 4)
    # Most frames to the board are long.
    setattr(line, direction, flipping(2, 0.0005 if direction == "to_board" else 0.004))
    for seed in (5, 22, 23):
        # It is another one: its image is loaded anew.
        check_run(device, dataclasses.replace(program), seed)
    assert transport.repeats > before


def test_nothing_but_garbage(device, line, program):
    line.to_board = flipping(3, 1.0)
    fails(device, program, NO_ANSWER)
    line.heal()
    check_run(device, program, 6)
    line.to_host = flipping(4, 0.3)
    fails(device, program, NO_ANSWER.replace(r"\d+ damaged", r"[1-9]\d* damaged"))
    line.heal()
    check_run(device, program, 7)


@pytest.mark.parametrize("direction", ["to_board", "to_host"])
def test_dropped_frames_are_sent_again(device, transport, line, program, direction):
    before = transport.repeats
    setattr(line, direction, dropping(5, 0.15))
    for seed in (8, 24, 25):
        # It is another one: its image is loaded anew, in many frames.
        check_run(device, dataclasses.replace(program), seed)
    assert transport.repeats > before


@pytest.mark.parametrize("direction", ["to_board", "to_host"])
def test_repeated_frames_are_executed_once(device, line, program, direction):
    setattr(line, direction, repeating(3))
    for seed in (9, 10):
        check_run(device, program, seed)


def test_a_frame_from_the_past(device, line, program):
    """An old write, delivered again, is not executed; another host's HELLO makes the driver begin anew."""
    check_run(device, program, 11)
    line.line.write(line.written[-1])
    old = next(raw for raw in line.written if len(raw) > 200)
    line.line.write(old)
    check_run(device, program, 12)
    # Far from the driver's numbers, the last of which is in what it has sent.
    *_, (sequence, *_) = FrameDecoder().feed(line.written[-1])
    line.line.write(encode_request((sequence + 100) % 256, Operation.HELLO))
    line.line.read(0)
    fails(
        device,
        program,
        rf"^{NAME}: the board was reset, or another host used it: it does not know request \d+ \(READ_REG",
    )
    check_run(device, program, 13)


def test_wrong_instruction_set(device, program, monkeypatch):
    monkeypatch.setattr(identify_module, "ISA_HASH", 1)
    fails(
        device,
        program,
        rf"^{NAME}: it executes another instruction set \(ISA_HASH 0x[0-9a-f]+, this compiler's is 0x00000001\)",
    )
    monkeypatch.undo()
    check_run(device, program, 14)


def test_wrong_configuration(device, program):
    fails(device, tiny("small"), rf"^{NAME}: its configuration is nano, the program's is small ")
    check_run(device, program, 15)


def test_decerr(device, program):
    """The bus answers DECERR behind the end of the memory. The driver is told that there is more than there is."""
    size, honest = device.identity.memory_bytes, device.identity
    device.identity = dataclasses.replace(honest, memory_bytes=2 * size)
    for make, wanted in ((loading, "BUS_READ in LOAD"), (storing, "BUS_WRITE in STORE")):
        beyond = dataclasses.replace(make("nano", size + 64), memory_bytes=size + 4096)
        with pytest.raises(tosaic.DeviceError, match=rf"^{NAME}: {wanted} at program counter \d+ \("):
            device.run(beyond, np.zeros(size + 4096, np.uint8))
        check_run(device, program, 16)
    device.identity = honest


def test_the_watchdog(device, program):
    fails(
        device,
        stuck("nano"),
        rf"^{NAME}: WATCHDOG in STORE at program counter 16 \(STORE_WAIT semaphore=3 count=1\); UNITS is 0x080800, ",
    )
    check_run(device, program, 17)


def test_no_end_in_time(device, program):
    fails(
        device,
        endless("nano"),
        rf"^{NAME}: the program did not end in 50000 cycles; UNITS is 0x000000, "
        r"SEQUENCER at 16 \(BRANCH target=16 condition=0\), LOAD at ",
        max_cycles=50_000,
    )
    check_run(device, program, 18)


def test_the_reset_button_while_a_program_runs(device, line, board, program):
    line.on_pause = board.reset
    fails(
        device,
        endless("nano"),
        rf"^{NAME}: the board was reset, or another host used it: it does not know request ",
    )
    line.heal()
    check_run(device, program, 19)


def test_the_machine_is_reset_while_a_program_runs(device, transport, line, program):
    def reset():
        line.on_pause = lambda: None
        transport.reset()

    line.on_pause = reset
    fails(
        device,
        endless("nano"),
        rf"^{NAME}: the machine was reset while the program ran: it is idle, and at no end",
    )
    check_run(device, program, 20)


def test_a_line_that_never_stops(device, line, program):
    """Garbage without end does not hold the driver for ever."""
    line.to_host = unplugged
    read = line.read
    line.read = lambda seconds: bytes(range(200)) if seconds else b""
    fails(device, program, NO_ANSWER)
    line.read = read
    line.heal()
    check_run(device, program, 21)
