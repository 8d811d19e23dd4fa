"""How often a host waits for a board during an inference: FTDI's USB chips hold each answer for up to 16 ms."""

import pathlib

import numpy as np
import pytest

import tosaic
from tosaic.driver.transports import BridgeTransport
from tosaic.hw.bridge.frames import FrameDecoder, encode_frame, encode_request
from tosaic.hw.bridge.protocol import Operation
from tosaic.hw.csr_map import ID_VALUE, REGISTER
from tosaic.sim.board import VirtualLine
from tosaic.virtual import open_board

pytestmark = pytest.mark.xdist_group("virtual_ulx3s-45f")
DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits_tiny.tosa"
HELD_CYCLES = 20_000
START = 4
"""The place of the request that starts the program: behind two looks, inputs and registers."""


class HeldLine(VirtualLine):
    """Gives nothing until the host waits; then it takes its time, and gives all that has come. `waits` are round trips:
    the host waits after it has sent something. The request `lose` does
    not arrive, and the answer `deafen`; they count from `begin`."""

    def __init__(self, board):
        super().__init__(board)
        self.begin()
        self._answers = FrameDecoder()

    def write(self, data):
        self.sent += 1
        if self.sent - 1 != self.lose:
            super().write(data)

    def read(self, seconds):
        if seconds <= 0 or not (came := super().read(seconds)):
            return b""
        self.waits += self.sent > self.sent_before
        self.sent_before = self.sent
        end = self.board.cycle + HELD_CYCLES
        while self.board.cycle < end:
            if more := self.board.run(end - self.board.cycle):
                came, end = came + more, self.board.cycle + HELD_CYCLES
        given = b""
        for content in self._answers.feed(came):
            self.heard += 1
            given += encode_frame(content) if self.heard - 1 != self.deafen else b""
        return given

    def begin(self, lose=None, deafen=None):
        self.waits = self.sent = self.sent_before = self.heard = 0
        self.lose, self.deafen = lose, deafen


@pytest.fixture(scope="module")
def line():
    board = open_board("ulx3s-45f")
    yield HeldLine(board)
    board.close()


@pytest.fixture(scope="module")
def transport(line):
    return BridgeTransport(line, "held board")


@pytest.fixture(scope="module")
def session(transport):
    return tosaic.Session(DIGITS, tosaic.Device(transport))


@pytest.fixture(scope="module")
def image():
    return {"image": np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)}


def test_an_inference_waits_three_times(line, session, image):
    """What machine is there and is it idle; inputs, start and whether it has ended; outputs and counters. The image
    goes at once, and all marks take two."""
    line.begin()
    session.run(image, check=True)
    assert line.waits <= 5
    for _ in range(2):
        line.begin()
        session.run(image, check=True)
        assert line.waits == 3
    line.begin()
    assert len(session.stats["layers"]) == 3
    assert line.waits == 2


@pytest.mark.nightly
def test_long_transfers_wait_once(line, transport):
    """Frames of 1,024 bytes, five to write and 17 to read: more than a line may say in vain. None is sent again."""
    data = np.random.default_rng(4).bytes(5 * 1024)
    line.begin()
    transport.write_memory(0x10_0000, data)
    assert (line.sent, line.waits) == (5, 1)
    assert transport.read_memory(0x10_0000, 17 * 1024)[: len(data)] == data
    assert (line.sent, line.waits) == (22, 2)
    transport.write_memory(0x10_0000, data[:2048])
    assert (line.sent, line.waits) == (24, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["lose", "deafen"])
def test_a_start_that_is_lost(line, session, image, way):
    """The program runs once; for a while requests go one by one, and then together again."""
    session.run(image)
    line.begin(**{way: START})
    session.run(image, check=True)
    one_by_one = 0
    line.begin()
    while session.run(image) and line.waits > 3:
        one_by_one += 1
        line.begin()
    assert 1 <= one_by_one <= 4


def test_marks_whose_answers_were_lost(line, session, image):
    """A mark is not another one's: MARK_INDEX is the last one's when an answer is asked for again."""
    session.run(image)
    layers = session.stats["layers"]
    session.run(image)
    line.begin(deafen=2)
    again = session.stats["layers"]
    assert [each["name"] for each in again] == [each["name"] for each in layers] and line.waits > 2


def test_a_board_that_was_reset_in_between(line, session, image):
    """Requests that are under way when another host greets are told, and the next run is right."""
    session.run(image)
    line.write(encode_request(3, Operation.HELLO))
    line.read(1.0)
    with pytest.raises(
        tosaic.DeviceError, match=r"the board was reset, or another host used it: .* \(READ_REG"
    ):
        session.run(image)
    session.run(image, check=True)


@pytest.mark.parametrize("lost", range(5))
@pytest.mark.parametrize("way", ["lose", "deafen"])
def test_what_is_lost_is_sent_again(line, way, lost):
    """Each of several requests, and each answer, once; nothing is told, and all is as if nothing were lost."""
    transport = BridgeTransport(line, "held board")
    line.begin(**{way: lost})
    with transport.together():
        for place in (0, 3, 6):
            transport.write_memory(0x20_0000 + place, bytes([lost, place, 0x7E]))
        registers = transport.ask_registers(REGISTER["ID"].offset, 4)
        written = transport.ask_memory(0x20_0000, 9)
        assert registers()[0] == ID_VALUE
    assert written() == bytes([lost, 0, 0x7E, lost, 3, 0x7E, lost, 6, 0x7E])
    assert line.sent > 5 or way == "deafen"
